//! Flows, edges and the lists a graph is walked by.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::sequence::Sequence;
use super::table::Known;
use super::{Stop, Workspace};
use crate::Ms;
use crate::agenda::{Agenda, AgendaKey, Subject};
use crate::event::{Event, Fact};
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow, ListKey, Standing};
use crate::id::{ExecutionId, FlowId};
use crate::key::{Ask, Key};
use crate::rejection::Rejection;
use crate::state::Reason;

/// How many entries one read of a list brings.
const PAGE: usize = 1_024;

/// How many entries of lists are kept in memory for each record.
const LISTED: usize = 8;

/// The lists that are in memory, whole or in part.
pub(super) type Lists = FxHashMap<ListKey, Sequence>;

/// What is to be done in a graph before the command being decided is over.
#[derive(Clone, Debug)]
pub enum Todo {
    Moved(Moved),
    /// A group whose edges, policy or openness has changed.
    Look(ExecutionId),
    /// A member that has news left to pass on.
    Pass(ExecutionId),
    /// A flow that may have ended.
    Flow(FlowId),
    /// A child that has ended; its parent may wait for it.
    ChildEnded(ExecutionId),
}

/// A member that the command being decided has brought from one standing to another.
#[derive(Clone, Debug)]
pub struct Moved {
    pub id: ExecutionId,
    pub before: Option<Arc<Execution>>,
    pub after: Arc<Execution>,
}

impl Moved {
    pub(super) fn of(before: Option<&Arc<Execution>>, after: &Arc<Execution>) -> Option<Moved> {
        after.flow()?;
        let started = |it: &Execution| it.live.attempt.is_some();
        let begun = |it: &Execution| it.reason() == Reason::ChildFlow;
        let stands = |it: &Arc<Execution>| (Standing::of(it), started(it), begun(it), it.live.series.number);
        if before.is_some_and(|before| stands(before) == stands(after)) {
            return None;
        }
        Some(Moved { id: after.id, before: before.cloned(), after: after.clone() })
    }
}

impl Workspace {
    pub fn flow(&self, id: FlowId) -> Result<Option<&Arc<Flow>>, Stop> {
        match self.flows.get(&id) {
            Known::Present(flow) => Ok(Some(flow)),
            Known::Absent => Ok(None),
            Known::Unknown => Err(Stop::Need(vec![Ask::Record(Key::Flow(id))])),
        }
    }

    /// The flow if it is in memory; nothing is read to find out.
    pub fn known_flow(&self, id: FlowId) -> Option<&Arc<Flow>> {
        self.flow(id).unwrap_or(None)
    }

    /// The flow, or the rejection that there is none.
    pub fn require_flow(&self, id: FlowId) -> Result<&Arc<Flow>, Stop> {
        self.flow(id)?.ok_or_else(|| Rejection::NotFound { what: "flow".into(), id: id.to_string() }.into())
    }

    pub fn put_flow(&mut self, mut flow: Flow, now: Ms) {
        flow.live.changed_at = now;
        if let Some(remove_at) = flow.live.end.as_ref().and_then(|end| end.remove_at) {
            self.sweep_by(remove_at);
        }
        let after = Arc::new(flow);
        let before = self.flows.put(after.id, Some(after.clone()), self.batch);
        derive_flow(&mut self.agenda, before.as_deref(), Some(&after));
    }

    pub fn purge_flow(&mut self, id: FlowId) {
        let before = self.flows.put(id, None, self.batch);
        derive_flow(&mut self.agenda, before.as_deref(), None);
    }

    /// The edge between two nodes. Where one of them has all its edges in memory, nothing is read.
    pub fn edge(&self, key: EdgeKey) -> Result<Option<&Arc<Edge>>, Stop> {
        match self.edges.get(&key) {
            Known::Present(edge) => return Ok(Some(edge)),
            Known::Absent => return Ok(None),
            Known::Unknown => {}
        }
        let whole = |list| self.graph.get(&list).filter(|it| it.is_whole());
        let down = whole(ListKey::Downstream(key.upstream)).map(|it| (it, key.downstream));
        let up = whole(ListKey::Upstream(key.downstream)).map(|it| (it, key.upstream));
        // One end of a fan has very many edges, the other few.
        let shorter = down.into_iter().chain(up).min_by_key(|(list, _)| list.len());
        let absent = shorter.is_some_and(|(list, to)| list.after(0).all(|(_, id)| id != to));
        if absent { Ok(None) } else { Err(Stop::Need(vec![Ask::Record(Key::Edge(key))])) }
    }

    pub fn put_edge(&mut self, edge: Edge) {
        let after = Arc::new(edge);
        let before = self.edges.put(after.key, Some(after.clone()), self.batch);
        self.graph_added += 2 * usize::from(before.is_none());
        derive_edge(&mut self.graph, before.as_deref(), Some(&after));
    }

    pub fn purge_edge(&mut self, key: EdgeKey) {
        let before = self.edges.put(key, None, self.batch);
        derive_edge(&mut self.graph, before.as_deref(), None);
    }

    /// Something new has an empty list, which nobody needs to read.
    pub fn begin_list(&mut self, list: ListKey) {
        self.graph_added += 1;
        self.graph.entry(list).or_insert_with(Sequence::whole);
    }

    /// Up to `limit` entries of a list after a number, and whether there are more.
    pub fn list(
        &self,
        list: ListKey,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<(u64, ExecutionId)>, bool), Stop> {
        let unread = |after| Stop::Need(vec![Ask::List { list, after, limit: PAGE }]);
        let Some(known) = self.graph.get(&list) else { return Err(unread(after)) };
        let mut entries: Vec<_> = known.after(after).take(limit.saturating_add(1)).collect();
        let more = entries.len() > limit;
        match known.unread_after(after) {
            Some(from) if from == after || !more => return Err(unread(from)),
            _ => {}
        }
        entries.truncate(limit);
        Ok((entries, more))
    }

    /// Notes what must follow before the command is over.
    pub fn follow_up(&mut self, todo: Todo) {
        self.todo.push_back(todo);
    }

    pub fn todo(&self) -> impl Iterator<Item = &Todo> {
        self.todo.iter()
    }

    pub fn next_todo(&mut self) -> Option<Todo> {
        self.todo.pop_front()
    }

    /// Records a fact about a flow.
    pub fn emit_flow(&mut self, flow: &Flow, now: Ms, fact: Fact) {
        let number = self.next_number();
        self.lists.events.push(Event {
            number,
            at: now,
            execution: None,
            flow: Some(flow.id),
            namespace: Some(flow.spec.namespace.clone()),
            lane: None,
            tags: flow.live.tags.clone(),
            fact,
        });
    }

    /// Takes in a page of a list, and what has changed since it was read.
    pub(super) fn learn_list(
        &mut self,
        list: ListKey,
        after: u64,
        limit: usize,
        entries: &[(u64, ExecutionId)],
    ) {
        self.graph_added += entries.len() + 1;
        let known = self.graph.entry(list).or_insert_with(|| Sequence::unread(after));
        known.extend(after, limit, entries);
        let unsettled = || self.recent.overwritten();
        match list {
            ListKey::Members(flow) => {
                let executions = unsettled().flat_map(|before| &before.executions);
                for (id, _) in executions.chain(self.executions.touched()) {
                    if let Known::Present(it) = self.executions.get(id)
                        && let Some(member) = it.spec.member.as_ref().filter(|member| member.flow == flow)
                    {
                        known.add(member.number, *id);
                    }
                }
            }
            ListKey::Downstream(id) | ListKey::Upstream(id) => {
                let edges = unsettled().flat_map(|before| &before.edges);
                for (key, _) in edges.chain(self.edges.touched()) {
                    let (end, other) = match list {
                        ListKey::Downstream(_) => (key.upstream, key.downstream),
                        _ => (key.downstream, key.upstream),
                    };
                    if end == id
                        && let Known::Present(edge) = self.edges.get(key)
                    {
                        known.add(edge.number, other);
                    }
                }
            }
        }
    }

    /// Gives back memory. What is dropped is read again when it is needed.
    pub(super) fn evict_graph(&mut self, settled: u64, keep: usize) {
        self.flows.evict(settled, keep, |it| it.live.end.is_some());
        if self.edges.len() > keep {
            self.edges.evict(settled, keep / 2, |_| false);
        }
        // An entry of a list is small beside a record. Counting takes a while, so it is done only when enough has
        // been added since.
        if self.graph_added > keep {
            self.graph_added = 0;
            let mut left = keep.saturating_mul(LISTED);
            self.graph.retain(|_, list| {
                left = left.saturating_sub(list.len() + 1);
                left > 0
            });
        }
    }
}

fn walk_key(flow: &Flow) -> Option<AgendaKey> {
    flow.live.walk.map(|walk| AgendaKey { due: walk.since, subject: Subject::Members(flow.id) })
}

/// The agenda entries that go and come when a flow goes from one record to another.
pub(super) fn flow_entries(
    before: Option<&Flow>,
    after: Option<&Flow>,
) -> (Option<AgendaKey>, Option<AgendaKey>) {
    let (old, new) = (before.and_then(walk_key), after.and_then(walk_key));
    if old == new { (None, None) } else { (old, new) }
}

pub(super) fn derive_flow(agenda: &mut Agenda, before: Option<&Flow>, after: Option<&Flow>) {
    let (old, new) = flow_entries(before, after);
    old.iter().for_each(|key| agenda.remove(key));
    new.into_iter().for_each(|key| agenda.add(key, None));
}

pub(super) fn derive_edge(lists: &mut Lists, before: Option<&Edge>, after: Option<&Edge>) {
    let Some(edge) = after.or(before) else { return };
    let EdgeKey { upstream, downstream } = edge.key;
    let ends = [(ListKey::Downstream(upstream), downstream), (ListKey::Upstream(downstream), upstream)];
    for (list, other) in ends {
        match (lists.get_mut(&list), after) {
            (Some(list), Some(_)) => list.add(edge.number, other),
            (Some(list), None) => list.remove(edge.number),
            (None, _) => {}
        }
    }
}

pub(super) fn derive_member(lists: &mut Lists, before: Option<&Execution>, after: Option<&Execution>) {
    let Some(it) = after.or(before) else { return };
    let Some(member) = &it.spec.member else { return };
    if before.is_some() && after.is_some() {
        return;
    }
    let Some(list) = lists.get_mut(&ListKey::Members(member.flow)) else { return };
    match after {
        Some(_) => list.add(member.number, it.id),
        None => list.remove(member.number),
    }
}
