//! What a member of a flow is given: its own input, and the results of upstreams under the names of their edges.
//!
//! | own input | what the worker sees |
//! |---|---|
//! | none or `null` | `{"inputs": {…}}` |
//! | an object | the object with `inputs` in it |
//! | anything else | `{"input": …, "inputs": {…}}` |
//!
//! A name that one edge of a node has stands for that edge's result. A name that several edges have stands for the results
//! that satisfied the node, in the order of the edges: a list, whatever their number, except with `any_of`, where there is
//! exactly one and it stands for itself. A quorum of one gives a list of one, so that what a handler is given does not
//! change its shape with k. The first members of a child flow are given what its node is given.
//!
//! The result of a flow, which is also that of the node it stands for, is that of the members at its end. A member that
//! runs again keeps its result until it has ended anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::value::{RawValue, to_raw_value};

use super::{Edge, Join};
use crate::execution::Execution;
use crate::id::ExecutionId;
use crate::payload::{JSON, Payload};
use crate::state::PublicState;

pub type Value = Box<RawValue>;

/// Results by the names of their edges.
pub type Given = BTreeMap<String, Value>;

/// Whether an execution may be given more than its own input.
pub fn is_given_more(execution: &Execution) -> bool {
    is_given_results(execution) || giver(execution).is_some()
}

/// Whether results of its upstreams go into its input.
pub fn is_given_results(execution: &Execution) -> bool {
    execution.node().is_some_and(|node| node.group.named > 0)
}

/// The node whose gifts a member is given too: that of its child flow, if it is one of the first there.
pub fn giver(execution: &Execution) -> Option<ExecutionId> {
    let first = execution.node().is_some_and(|node| node.group.total == 0);
    execution.spec.member.as_ref().and_then(|member| member.parent).filter(|_| first)
}

/// Those of a node's edges whose results go into its input.
pub fn passing(edges: &[Arc<Edge>]) -> impl Iterator<Item = &Arc<Edge>> {
    edges.iter().filter(|edge| edge.field.is_some() && edge.passes)
}

/// What a node is given by all its edges, `results` being those of the [`passing`] ones.
pub fn given(node: &Execution, edges: &[Arc<Edge>], results: impl IntoIterator<Item = Value>) -> Given {
    let mut often = BTreeMap::<&str, usize>::new();
    for field in edges.iter().filter_map(|edge| edge.field.as_ref()) {
        *often.entry(field.as_str()).or_default() += 1;
    }
    let needs_one = node.node().is_some_and(|it| matches!(it.group.join, Join::AnyOf { .. }));
    let mut lists = BTreeMap::<String, Vec<Value>>::new();
    for (edge, result) in passing(edges).zip(results) {
        let Some(field) = &edge.field else { continue };
        lists.entry(field.as_str().to_owned()).or_default().push(result);
    }
    let one_or_all = |(name, mut values): (String, Vec<Value>)| {
        let single = needs_one || often.get(name.as_str()) == Some(&1);
        let value = if single { values.pop() } else { to_raw_value(&values).ok() };
        (name, value.unwrap_or_else(null))
    };
    lists.into_iter().map(one_or_all).collect()
}

/// Whether a member's result counts for its flow: it completed.
pub fn is_completed(member: &Execution) -> bool {
    member.public_state() == PublicState::Completed
}

/// Whether a member runs again, so that a result of its earlier run counts until it has ended anew.
pub fn runs_again(member: &Execution) -> bool {
    member.end().is_none() && member.live.series.number > 1
}

/// The members whose results are the flow's: those that count and that no member that counts comes after. What was
/// there for a failure that did not happen hides nothing. `others` are the edges to members that do not count.
pub fn ends(
    members: Vec<Arc<Execution>>,
    counts: impl Fn(&Execution) -> bool,
    others: &[Arc<Edge>],
) -> Vec<Arc<Execution>> {
    let mut followers: FxHashMap<ExecutionId, u32> = members
        .iter()
        .filter(|it| counts(it))
        .map(|it| (it.id, it.node().map_or(0, |node| node.dependents)))
        .collect();
    for edge in others {
        followers.entry(edge.key.upstream).and_modify(|count| *count = count.saturating_sub(1));
    }
    members.into_iter().filter(|it| followers.get(&it.id) == Some(&0)).collect()
}

/// The result of a flow: that of the member at its end, or, if it has several ends, those by their names.
pub fn flow_result(ends: &[Arc<Execution>], mut results: Vec<Value>) -> Value {
    if ends.len() <= 1 {
        return results.pop().unwrap_or_else(null);
    }
    let mut named = Given::new();
    for (end, result) in ends.iter().zip(results) {
        let name = end.node_name().map_or_else(|| end.id.to_string(), |name| name.to_string());
        let number = end.spec.member.as_ref().map_or(0, |member| member.number);
        // A flow of an earlier version of this program may have a name twice; then the later say which they are.
        let name = if named.contains_key(&name) { format!("{name}#{number}") } else { name };
        named.insert(name, result);
    }
    to_raw_value(&named).unwrap_or_else(|_| null())
}

fn null() -> Value {
    RawValue::NULL.to_owned()
}

/// A payload as a JSON value: JSON as it is, text as a string, other bytes with their type and in base64.
pub fn value(payload: Option<&Payload>) -> Value {
    let Some(payload) = payload.filter(|it| !it.is_empty()) else { return null() };
    if &*payload.content_type == JSON
        && let Ok(value) = serde_json::from_slice::<Value>(&payload.bytes)
    {
        return value;
    }
    let text = payload.content_type.starts_with("text/").then(|| std::str::from_utf8(&payload.bytes).ok());
    let value = match text.flatten() {
        Some(text) => serde_json::json!(text),
        None => serde_json::json!({
            "content_type": &*payload.content_type,
            "base64": crate::base64::encode(&payload.bytes),
        }),
    };
    to_raw_value(&value).unwrap_or_else(|_| null())
}

/// An own input with what is given beside it.
pub fn merge(own: &Payload, given: Given) -> Payload {
    let given = to_raw_value(&given).unwrap_or_else(|_| null());
    let own = value(Some(own));
    let mut fields = match own.get() {
        "null" => BTreeMap::new(),
        text => serde_json::from_str::<BTreeMap<String, Value>>(text)
            .unwrap_or_else(|_| BTreeMap::from([("input".to_owned(), own)])),
    };
    fields.insert("inputs".to_owned(), given);
    Payload::json(serde_json::to_vec(&fields).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(own: Payload) -> String {
        let given = BTreeMap::from([("left".to_owned(), value(Some(&Payload::json("7"))))]);
        String::from_utf8(merge(&own, given).bytes.to_vec()).unwrap()
    }

    fn bytes(content_type: &str, bytes: &'static [u8]) -> Payload {
        Payload { content_type: content_type.into(), bytes: bytes.into() }
    }

    #[test]
    fn inputs_go_into_an_object_and_stand_beside_anything_else() {
        assert_eq!(merged(Payload::json("")), r#"{"inputs":{"left":7}}"#);
        assert_eq!(merged(Payload::json("null")), r#"{"inputs":{"left":7}}"#);
        assert_eq!(merged(Payload::json(r#"{"a": [1, 2]}"#)), r#"{"a":[1, 2],"inputs":{"left":7}}"#);
        assert_eq!(merged(Payload::json("[1]")), r#"{"input":[1],"inputs":{"left":7}}"#);
        assert_eq!(merged(bytes("text/plain", b"hi")), r#"{"input":"hi","inputs":{"left":7}}"#);
    }

    #[test]
    fn what_is_not_json_is_told_as_text_or_base64() {
        let told = |payload: Payload| value(Some(&payload)).get().to_owned();
        assert_eq!(value(None).get(), "null");
        assert_eq!(told(bytes(JSON, b"[1,")), r#"{"base64":"WzEs","content_type":"application/json"}"#);
        assert_eq!(told(bytes("image/png", b"\xff")), r#"{"base64":"/w==","content_type":"image/png"}"#);
    }

    fn values(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| RawValue::from_string((*text).to_owned()).unwrap()).collect()
    }

    #[test]
    fn a_shared_name_is_a_list_of_what_satisfied_the_node_and_with_any_of_the_one_result() {
        use super::super::OnSatisfied::LetRun;
        use crate::commands::testing::*;
        let edge = |n: u64, field: &str, passes| {
            let id = |n| ExecutionId::from_parts(1, crate::id::Route(0), n);
            Arc::new(Edge {
                key: super::super::EdgeKey { upstream: id(n), downstream: id(99) },
                flow: crate::id::FlowId::from_parts(1, crate::id::Route(0), 1),
                number: n,
                on: super::super::On::Success,
                field: Some(field.parse().unwrap()),
                counted: None,
                needed: false,
                passes,
                created_at: 1,
                created_by: "ada".into(),
            })
        };
        let told = |join: Join, edges: &[Arc<Edge>], results: &[&str]| {
            let mut bench = Bench::new();
            let id = bench.create();
            let mut node = bench.get(id).clone();
            node.live.node = Some(Box::new(super::super::Node::new(join, false)));
            serde_json::to_string(&given(&node, edges, values(results))).unwrap()
        };
        let shared = [edge(1, "x", true), edge(2, "x", false), edge(3, "x", true)];
        let one = [edge(1, "x", false), edge(2, "x", true), edge(3, "y", false)];
        let any = Join::AnyOf { on_satisfied: LetRun };
        let quorum = |k| Join::Quorum { k, on_satisfied: LetRun };
        assert_eq!(told(Join::AllOf, &shared, &["1", "3"]), r#"{"x":[1,3]}"#);
        assert_eq!(told(quorum(2), &shared, &["1", "3"]), r#"{"x":[1,3]}"#);
        assert_eq!(told(quorum(1), &one, &["2"]), r#"{"x":[2]}"#, "a list, whatever k is");
        assert_eq!(told(any, &one, &["2"]), r#"{"x":2}"#);
        let apart = [edge(1, "x", true), edge(2, "y", true)];
        assert_eq!(told(quorum(2), &apart, &["1", "2"]), r#"{"x":1,"y":2}"#, "a name of its own");
    }
}
