//! Questions people ask about executions and flows: filters, pages, counts.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::execution::Execution;
use crate::flow::{Flow, FlowState};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::name::{Kind, LaneName, Namespace, SignalName, WorkerName};
use crate::state::{PublicState, Reason};
use crate::suspension::{WaitpointEntry, WaitpointId};

/// Which executions. Everything that is given must hold; an empty filter matches all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    pub namespace: Option<Namespace>,
    pub lane: Option<LaneName>,
    pub kind: Option<Kind>,
    /// Members of this flow.
    pub flow: Option<FlowId>,
    pub states: Vec<PublicState>,
    pub reason: Option<Reason>,
    pub tags: Vec<(String, String)>,
    pub created_from: Option<Ms>,
    pub created_before: Option<Ms>,
    pub worker: Option<WorkerName>,
    pub instance: Option<InstanceId>,
    pub error_code: Option<String>,
    /// Text inside the error message, without regard to case.
    pub error_text: Option<String>,
}

impl Filter {
    pub fn matches(&self, execution: &Execution) -> bool {
        let spec = &execution.spec;
        let live = &execution.live;
        let attempt = live.attempt.as_ref();
        let error = || {
            let ended = execution.end().and_then(|end| end.error.as_ref());
            ended.or_else(|| attempt.and_then(|a| a.end.as_ref()).and_then(|end| end.error.as_ref()))
        };
        self.namespace.as_ref().is_none_or(|it| *it == spec.namespace)
            && self.lane.as_ref().is_none_or(|it| *it == spec.lane)
            && self.kind.as_ref().is_none_or(|it| *it == spec.kind)
            && self.flow.is_none_or(|it| execution.flow() == Some(it))
            && (self.states.is_empty() || self.states.contains(&execution.public_state()))
            && self.reason.is_none_or(|it| it == execution.reason())
            && self.tags.iter().all(|(key, value)| live.tags.get(key) == Some(value))
            && self.created_from.is_none_or(|it| spec.created_at >= it)
            && self.created_before.is_none_or(|it| spec.created_at < it)
            && self.worker.as_ref().is_none_or(|it| attempt.is_some_and(|a| a.worker == *it))
            && self.instance.is_none_or(|it| attempt.is_some_and(|a| a.instance == it))
            && self
                .error_code
                .as_ref()
                .is_none_or(|it| error().is_some_and(|e| e.code.as_deref() == Some(it)))
            && self.error_text.as_ref().is_none_or(|it| {
                error().is_some_and(|e| e.message.to_lowercase().contains(&it.to_lowercase()))
            })
    }

    /// Whether the counters that ride with each commit answer this filter exactly.
    pub fn is_counted(&self) -> bool {
        let Filter { namespace: _, lane: _, kind: _, states: _, .. } = self;
        self.flow.is_none()
            && self.reason.is_none()
            && self.tags.is_empty()
            && self.created_from.is_none()
            && self.created_before.is_none()
            && self.worker.is_none()
            && self.instance.is_none()
            && self.error_code.is_none()
            && self.error_text.is_none()
    }
}

/// In which direction a page is read. Ids sort by creation time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// A page of executions after a place in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct PageAsk {
    pub filter: Filter,
    pub order: Order,
    pub after: Option<ExecutionId>,
    pub limit: usize,
    /// How many records to look at before answering with what was found so far.
    pub scan_max: usize,
}

/// Executions found, in the order asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub executions: Vec<Execution>,
    /// Where the next page starts; absent when there is nothing more.
    pub next: Option<ExecutionId>,
}

/// Which flows. Everything that is given must hold; an empty filter matches all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowFilter {
    pub namespace: Option<Namespace>,
    pub kind: Option<Kind>,
    pub states: Vec<FlowState>,
    pub tags: Vec<(String, String)>,
    pub created_from: Option<Ms>,
    pub created_before: Option<Ms>,
}

impl FlowFilter {
    pub fn matches(&self, flow: &Flow) -> bool {
        let spec = &flow.spec;
        self.namespace.as_ref().is_none_or(|it| *it == spec.namespace)
            && self.kind.as_ref().is_none_or(|it| *it == spec.kind)
            && (self.states.is_empty() || self.states.contains(&flow.state()))
            && self.tags.iter().all(|(key, value)| flow.live.tags.get(key) == Some(value))
            && self.created_from.is_none_or(|it| spec.created_at >= it)
            && self.created_before.is_none_or(|it| spec.created_at < it)
    }
}

/// A page of flows after a place in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPageAsk {
    pub filter: FlowFilter,
    pub order: Order,
    pub after: Option<FlowId>,
    pub limit: usize,
    /// How many records to look at before answering with what was found so far.
    pub scan_max: usize,
}

/// Flows found, in the order asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPage {
    pub flows: Vec<Flow>,
    /// Where the next page starts; absent when there is nothing more.
    pub next: Option<FlowId>,
}

/// Which open waitpoints. Everything that is given must hold; an empty filter matches all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WaitpointFilter {
    pub namespace: Option<Namespace>,
    pub lane: Option<LaneName>,
    pub kind: Option<Kind>,
    pub name: Option<SignalName>,
    pub reason: Option<Reason>,
    pub execution: Option<ExecutionId>,
}

impl WaitpointFilter {
    pub fn matches(&self, entry: &WaitpointEntry) -> bool {
        self.namespace.as_ref().is_none_or(|it| *it == entry.namespace)
            && self.lane.as_ref().is_none_or(|it| *it == entry.lane)
            && self.kind.as_ref().is_none_or(|it| *it == entry.kind)
            && self.name.as_ref().is_none_or(|it| entry.name.as_ref() == Some(it))
            && self.reason.is_none_or(|it| entry.reason == Some(it))
            && self.execution.is_none_or(|it| entry.id.execution == it)
    }
}

/// A page of open waitpoints after a place in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointPageAsk {
    pub filter: WaitpointFilter,
    pub order: Order,
    pub after: Option<WaitpointId>,
    pub limit: usize,
    /// How many records to look at before answering with what was found so far.
    pub scan_max: usize,
}

/// Open waitpoints found, in the order asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointPage {
    pub waitpoints: Vec<WaitpointEntry>,
    /// Where the next page starts; absent when there is nothing more.
    pub next: Option<WaitpointId>,
}

/// Frames of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePageAsk {
    pub execution: ExecutionId,
    pub attempt: u32,
    pub order: Order,
    /// Only frames after this number, or before it if the newest come first (0: no such limit).
    pub after: u64,
    pub limit: usize,
    /// Stop after so many bytes; at least one frame if there is one.
    pub bytes: usize,
}

/// What executions are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CountKey {
    pub namespace: Namespace,
    pub lane: LaneName,
    pub kind: Kind,
    pub state: PublicState,
}

impl CountKey {
    pub fn of(execution: &Execution) -> CountKey {
        CountKey {
            namespace: execution.spec.namespace.clone(),
            lane: execution.spec.lane.clone(),
            kind: execution.spec.kind.clone(),
            state: execution.public_state(),
        }
    }

    pub fn matches(&self, filter: &Filter) -> bool {
        filter.namespace.as_ref().is_none_or(|it| *it == self.namespace)
            && filter.lane.as_ref().is_none_or(|it| *it == self.lane)
            && filter.kind.as_ref().is_none_or(|it| *it == self.kind)
            && (filter.states.is_empty() || filter.states.contains(&self.state))
    }
}
