//! Bulk operations: the same done to many executions.

use std::collections::BTreeMap;

use ff_core::limits::Limits;
use ff_core::name::{Kind, LaneName, Namespace, WorkerName};
use ff_core::query::Filter;
use ff_core::registry::{Action, BulkOperation, BulkProblem, BulkVerb, Selection};
use ff_core::rejection::Invalid;
use ff_core::state::Reason;
use ff_core::tags::Tags;
use ff_core::{ExecutionId, PublicState};
use serde::{Deserialize as _, Deserializer};

use crate::fields::{id, word};
use crate::time::{Span, Time};

/// Which executions: everything that is given must hold. The fields are those of the list of executions.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FilterDoc {
    pub namespace: Option<String>,
    pub lane: Option<String>,
    pub kind: Option<String>,
    /// Members of this flow.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
    pub flow: Option<String>,
    /// One of these; any if empty.
    pub states: Vec<String>,
    pub reason: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub created_from: Option<Time>,
    pub created_before: Option<Time>,
    pub worker: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
    pub instance: Option<String>,
    pub error_code: Option<String>,
    pub error_text: Option<String>,
}

/// A filter is written as an object. A list of its values, in order, would mean something else when fields are added.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FilterDoc>, D::Error> {
    let object = Option::<serde_json::Map<String, serde_json::Value>>::deserialize(deserializer)?;
    let filter = object.map(|it| serde_json::from_value(it.into())).transpose();
    filter.map_err(serde::de::Error::custom)
}

impl FilterDoc {
    /// The filter it stands for.
    ///
    /// # Errors
    /// The field that does not fit.
    pub fn filter(&self) -> Result<Filter, Invalid> {
        let states = self.states.iter().map(|it| word("states", it, PublicState::ALL, PublicState::word));
        let reason = self.reason.as_deref().map(|it| word("reason", it, Reason::ALL, Reason::word));
        // Nothing can have a tag that may not be set; whoever looks for one has made a mistake.
        let tags = self.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Tags::default().edited(tags, [], &Limits::default())?;
        Ok(Filter {
            namespace: self.namespace.as_deref().map(Namespace::parse).transpose()?,
            lane: self.lane.as_deref().map(LaneName::parse).transpose()?,
            kind: self.kind.as_deref().map(Kind::parse).transpose()?,
            flow: self.flow.as_deref().map(|it| id("flow", it)).transpose()?,
            states: states.collect::<Result<_, _>>()?,
            reason: reason.transpose()?,
            tags: self.tags.clone().into_iter().collect(),
            created_from: self.created_from.map(|it| it.0),
            created_before: self.created_before.map(|it| it.0),
            worker: self.worker.as_deref().map(WorkerName::parse).transpose()?,
            instance: self.instance.as_deref().map(|it| id("instance", it)).transpose()?,
            error_code: self.error_code.clone(),
            error_text: self.error_text.clone(),
        })
    }
}

impl From<&Filter> for FilterDoc {
    fn from(it: &Filter) -> FilterDoc {
        FilterDoc {
            namespace: it.namespace.as_ref().map(ToString::to_string),
            lane: it.lane.as_ref().map(ToString::to_string),
            kind: it.kind.as_ref().map(ToString::to_string),
            flow: it.flow.map(|it| it.to_string()),
            states: it.states.iter().map(|it| it.word().to_owned()).collect(),
            reason: it.reason.map(|it| it.word().to_owned()),
            tags: it.tags.iter().cloned().collect(),
            created_from: it.created_from.map(Time),
            created_before: it.created_before.map(Time),
            worker: it.worker.as_ref().map(ToString::to_string),
            instance: it.instance.map(|it| it.to_string()),
            error_code: it.error_code.clone(),
            error_text: it.error_text.clone(),
        }
    }
}

/// What is to be done to many executions: those of a list, or those that match a filter.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BulkRequest {
    /// Under which the same request is known again: 1 to 64 lower-case letters, digits, `_` and `-`. One is made if it is
    /// left out.
    pub id: Option<String>,
    /// These executions.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<uuid::Uuid>>))]
    pub ids: Option<Vec<ExecutionId>>,
    /// Those that match and were there when it began; an empty filter matches all.
    #[serde(deserialize_with = "object")]
    pub filter: Option<FilterDoc>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// To how many executions it is done in a second at most.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub rate: Option<u32>,
    /// The new priority, which only `/v1/bulk/priority` takes and needs.
    #[cfg_attr(feature = "openapi", schema(minimum = -100, maximum = 100))]
    pub priority: Option<i8>,
    /// How long a worker that runs one of them may take to end by itself; only for `/v1/bulk/cancel`.
    pub grace_ms: Option<Span>,
    pub actor: Option<String>,
    pub cause: Option<String>,
}

impl BulkRequest {
    /// What it says is to be done by a verb.
    ///
    /// # Errors
    /// A field that is missing, or that the verb does not take.
    pub fn action(&self, verb: BulkVerb) -> Result<Action, Invalid> {
        let other = |field: &'static str, verb: &str| {
            Invalid::new(field, format!("is for {verb} only; leave it out"))
        };
        match (verb, self.priority, self.grace_ms) {
            (BulkVerb::Cancel | BulkVerb::Replay, Some(_), _) => Err(other("priority", "priority")),
            (BulkVerb::Replay | BulkVerb::Priority, _, Some(_)) => Err(other("grace_ms", "cancel")),
            (BulkVerb::Priority, None, _) => {
                Err(Invalid::new("priority", "is missing; allowed are -100 to 100"))
            }
            (BulkVerb::Cancel, None, grace) => Ok(Action::Cancel { grace_ms: grace.map(|it| it.0) }),
            (BulkVerb::Replay, None, None) => Ok(Action::Replay),
            (BulkVerb::Priority, Some(priority), None) => Ok(Action::Priority { priority }),
        }
    }

    /// Which executions it is about.
    ///
    /// # Errors
    /// If it says both or neither.
    pub fn chosen(&self) -> Result<Chosen, Invalid> {
        match (&self.ids, &self.filter) {
            (Some(ids), None) => Ok(Chosen::Ids(ids.clone())),
            (None, Some(filter)) => Ok(Chosen::Filter(Box::new(filter.filter()?))),
            (None, None) => Err(Invalid::new("filter", "is missing; say ids or a filter, {} for all")),
            (Some(_), Some(_)) => Err(Invalid::new("filter", "stands beside ids; leave out one of the two")),
        }
    }
}

/// Which executions a request is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Chosen {
    Ids(Vec<ExecutionId>),
    Filter(Box<Filter>),
}

answer! {
    /// An execution to which it was not done, and why.
    pub struct BulkProblemDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub execution: ExecutionId,
        pub code: String,
        pub detail: String,
    }
}

impl From<&BulkProblem> for BulkProblemDoc {
    fn from(it: &BulkProblem) -> BulkProblemDoc {
        let (code, detail) = (it.code.to_string(), it.detail.to_string());
        BulkProblemDoc { execution: it.execution, code, detail }
    }
}

answer! {
    /// A bulk operation and how far it has come.
    pub struct BulkDoc {
        pub id: String,
        /// `cancel`, `replay` or `priority`.
        pub verb: String,
        /// `running`, `finished` or `stopped`.
        pub state: String,
        pub priority: Option<i8>,
        pub grace_ms: Option<Span>,
        /// What it looks for, if it is not about a list.
        pub filter: Option<FilterDoc>,
        /// How many of its list it has not looked at yet, if it is about one.
        pub ids_left: Option<u64>,
        pub rate: Option<u32>,
        /// The namespaces it reaches; all if empty.
        pub namespaces: Vec<String>,
        pub started_at: Time,
        pub started_by: String,
        pub cause: String,
        pub ended_at: Option<Time>,
        pub stopped_by: Option<String>,
        /// How many executions there were to look at when it began, if they were counted.
        pub expected: Option<u64>,
        /// How many it has looked at.
        pub seen: u64,
        /// To how many it was done.
        pub done: u64,
        /// To how many it was not, by the code of the reason; `already` if it was so before.
        pub skipped: BTreeMap<String, u64>,
        /// Where something went wrong inside.
        pub failed: u64,
        /// The first few that were skipped or failed.
        pub problems: Vec<BulkProblemDoc>,
    }
}

impl BulkDoc {
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

impl From<&BulkOperation> for BulkDoc {
    fn from(it: &BulkOperation) -> BulkDoc {
        let (priority, grace_ms) = match it.action {
            Action::Cancel { grace_ms } => (None, grace_ms.map(Span)),
            Action::Replay => (None, None),
            Action::Priority { priority } => (Some(priority), None),
        };
        let (filter, ids_left) = match &it.selection {
            Selection::Ids(left) => (None, Some(left.len() as u64)),
            Selection::Filter { filter, .. } => (Some(FilterDoc::from(&**filter)), None),
        };
        let skipped = it.counts.skipped.iter().map(|(code, count)| (code.to_string(), *count));
        BulkDoc {
            id: it.id.to_string(),
            verb: it.action.verb().word().to_owned(),
            state: it.state.word().to_owned(),
            priority,
            grace_ms,
            filter,
            ids_left,
            rate: it.rate,
            namespaces: it.namespaces.iter().map(ToString::to_string).collect(),
            started_at: Time(it.started_at),
            started_by: it.started_by.actor.to_string(),
            cause: it.started_by.cause.to_string(),
            ended_at: it.ended_at.map(Time),
            stopped_by: it.stopped_by.as_ref().map(|by| by.actor.to_string()),
            expected: it.expected,
            seen: it.counts.seen,
            done: it.counts.done,
            skipped: skipped.collect(),
            failed: it.counts.failed,
            problems: it.counts.problems.iter().map(Into::into).collect(),
        }
    }
}

answer! {
    /// All bulk operations that are remembered, newest first.
    pub struct BulksDoc {
        pub bulks: Vec<BulkDoc>,
    }
}

answer! {
    /// What a bulk operation would do if it began now.
    pub struct BulkPreviewDoc {
        /// Always true: nothing was done.
        pub dry_run: bool,
        /// How many executions it would look at.
        pub seen: u64,
        /// To how many it would be done.
        pub done: u64,
        /// There are more than were counted.
        pub more: bool,
        /// The first of those to which it would be done.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<uuid::Uuid>))]
        pub first: Vec<ExecutionId>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_back_from_its_document() {
        let filter = Filter {
            namespace: Some("a".parse().unwrap()),
            kind: Some("k".parse().unwrap()),
            states: vec![PublicState::Failed, PublicState::Expired],
            reason: Some(Reason::CrashLoop),
            tags: vec![("a".to_owned(), "b".to_owned())],
            created_from: Some(7),
            error_text: Some("x".to_owned()),
            ..Filter::default()
        };
        let text = serde_json::to_string(&FilterDoc::from(&filter)).unwrap();
        let document: FilterDoc = serde_json::from_str(&text).unwrap();
        assert_eq!(document.filter(), Ok(filter));
        let wrong = FilterDoc { states: vec!["done".to_owned()], ..FilterDoc::default() };
        assert!(wrong.filter().unwrap_err().to_string().starts_with("states is \"done\"; allowed are"));
    }

    #[test]
    fn a_request_says_which_and_only_what_its_verb_takes() {
        let request = |text: &str| serde_json::from_str::<BulkRequest>(text).unwrap();
        for (verb, text, want) in [
            (BulkVerb::Cancel, r#"{"grace_ms": 5}"#, Ok(Action::Cancel { grace_ms: Some(5) })),
            (BulkVerb::Replay, "{}", Ok(Action::Replay)),
            (BulkVerb::Priority, r#"{"priority": 3}"#, Ok(Action::Priority { priority: 3 })),
            (BulkVerb::Priority, "{}", Err("priority")),
            (BulkVerb::Cancel, r#"{"priority": 3}"#, Err("priority")),
            (BulkVerb::Replay, r#"{"grace_ms": 5}"#, Err("grace_ms")),
        ] {
            let got = request(text).action(verb);
            assert_eq!(
                got.as_ref().map_err(|it| &*it.field),
                want.as_ref().map_err(|it| *it),
                "{verb} {text}"
            );
        }
        assert_eq!(request(r#"{"filter": {}}"#).chosen(), Ok(Chosen::Filter(Box::default())));
        assert_eq!(request(r#"{"ids": []}"#).chosen(), Ok(Chosen::Ids(vec![])));
        assert!(request("{}").chosen().is_err() && request(r#"{"ids": [], "filter": {}}"#).chosen().is_err());
    }
}
