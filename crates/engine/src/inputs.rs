//! What a member of a flow is given: its own input, and the results of upstreams under the names of their edges.
//!
//! | own input | what the worker sees |
//! |---|---|
//! | none or `null` | `{"inputs": {…}}` |
//! | an object | the object with `inputs` in it |
//! | anything else | `{"input": …, "inputs": {…}}` |
//!
//! A name that several edges of a node have stands for a list in the order of the edges, unless the node needs only
//! one of them. The first members of a child flow are given what its node is given.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ff_core::flow::{Edge, Join, ListKey};
use ff_core::key::Ask;
use ff_core::payload::{JSON, PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, FlowId, Payload, PublicState};
use ff_store::{Store, StoreError};
use serde_json::value::{RawValue, to_raw_value};

/// How many entries of a list are read at once.
const PAGE: usize = 1_000;

type Value = Box<RawValue>;

/// Whether an execution may be given more than its own input.
pub(crate) fn has_more(execution: &Execution) -> bool {
    let (Some(node), Some(member)) = (execution.node(), &execution.spec.member) else { return false };
    node.group.named > 0 || (node.group.total == 0 && member.parent.is_some())
}

/// The input of a member with everything it is given.
pub(crate) async fn complete(
    store: &dyn Store,
    execution: &Execution,
    own: Payload,
) -> Result<Payload, StoreError> {
    let mut giver = Some(Arc::new(execution.clone()));
    let mut given = BTreeMap::new();
    while let Some(node) = giver.take() {
        if node.node().is_some_and(|it| it.group.named > 0) {
            given.extend(results_for(store, &node).await?);
        }
        let around = node.spec.member.as_ref().and_then(|member| member.parent);
        if let Some(parent) = around.filter(|_| node.node().is_some_and(|it| it.group.total == 0)) {
            giver = record(store, parent).await?;
        }
    }
    Ok(if given.is_empty() { own } else { merge(&own, given) })
}

/// The results that a node's group was decided with, by the names of their edges.
async fn results_for(store: &dyn Store, node: &Execution) -> Result<BTreeMap<String, Value>, StoreError> {
    let (edges, upstreams) = read_all(store, ListKey::Upstream(node.id)).await?;
    let named: Vec<&Arc<Edge>> = edges.iter().filter(|edge| edge.field.is_some()).collect();
    let mut often = BTreeMap::<&str, usize>::new();
    named
        .iter()
        .filter_map(|edge| edge.field.as_ref())
        .for_each(|it| *often.entry(it.as_str()).or_default() += 1);
    let needs_one = node.node().is_some_and(|it| matches!(it.group.join, Join::AnyOf { .. }));
    let is_child = |id: ExecutionId| upstreams.iter().find(|it| it.id == id).and_then(|it| it.child_flow());
    let passing: Vec<&Arc<Edge>> = named.into_iter().filter(|edge| edge.passes).collect();
    let keys = passing.iter().map(|edge| PayloadKey { execution: edge.key.upstream, slot: Slot::Result });
    let results = store.payloads(keys.collect()).await?;
    let mut lists = BTreeMap::<String, Vec<Value>>::new();
    for (edge, result) in passing.into_iter().zip(results) {
        let Some(field) = &edge.field else { continue };
        let result = match is_child(edge.key.upstream) {
            Some(child) => flow_result(store, child).await?,
            None => value(result.as_ref()),
        };
        lists.entry(field.as_str().to_owned()).or_default().push(result);
    }
    let one_or_all = |(name, mut values): (String, Vec<Value>)| {
        let single = needs_one || often.get(name.as_str()) == Some(&1);
        let value = if single { values.pop() } else { to_raw_value(&values).ok() };
        (name, value.unwrap_or_else(null))
    };
    Ok(lists.into_iter().map(one_or_all).collect())
}

/// The result of a flow: that of the member at its end, or, if it has several ends, those by their names.
pub(crate) async fn flow_result(store: &dyn Store, flow: FlowId) -> Result<Value, StoreError> {
    let ends = ends(store, flow).await?;
    let mut results = Vec::with_capacity(ends.len());
    for end in &ends {
        results.push(match end.child_flow() {
            Some(child) => Box::pin(flow_result(store, child)).await?,
            None => {
                let key = PayloadKey { execution: end.id, slot: Slot::Result };
                value(store.payloads(vec![key]).await?.pop().flatten().as_ref())
            }
        });
    }
    if ends.len() <= 1 {
        return Ok(results.pop().unwrap_or_else(null));
    }
    let mut named = BTreeMap::<String, Value>::new();
    for (end, result) in ends.iter().zip(results) {
        let name = end.node_name().map_or_else(|| end.id.to_string(), |name| name.to_string());
        let number = end.spec.member.as_ref().map_or(0, |member| member.number);
        // Names are unique unless somebody gave one twice; then the later say which they are.
        let name = if named.contains_key(&name) { format!("{name}#{number}") } else { name };
        named.insert(name, result);
    }
    Ok(to_raw_value(&named).unwrap_or_else(|_| null()))
}

/// The members that completed and that no completed member comes after. What was there for a failure that did not
/// happen hides nothing.
async fn ends(store: &dyn Store, flow: FlowId) -> Result<Vec<Arc<Execution>>, StoreError> {
    let (_, members) = read_all(store, ListKey::Members(flow)).await?;
    let completed = |it: &&Arc<Execution>| it.public_state() == PublicState::Completed;
    let mut followers: HashMap<ExecutionId, u32> = members
        .iter()
        .filter(completed)
        .map(|it| (it.id, it.node().map_or(0, |node| node.dependents)))
        .collect();
    // Whatever did not complete takes itself out of what its upstreams are followed by.
    for other in members.iter().filter(|it| !completed(it)) {
        let (edges, _) = read_all(store, ListKey::Upstream(other.id)).await?;
        for edge in edges {
            followers.entry(edge.key.upstream).and_modify(|count| *count = count.saturating_sub(1));
        }
    }
    Ok(members.into_iter().filter(|it| followers.get(&it.id) == Some(&0)).collect())
}

async fn record(store: &dyn Store, id: ExecutionId) -> Result<Option<Arc<Execution>>, StoreError> {
    let asks = vec![Ask::Record(ff_core::key::Key::Execution(id))];
    let loaded = store.load(id.route().partition(store.info().partitions), asks).await?;
    Ok(loaded.answers.into_iter().find_map(|answer| match answer {
        Answer::Execution(_, execution) => execution,
        _ => None,
    }))
}

/// All entries of a list of a graph.
async fn read_all(
    store: &dyn Store,
    list: ListKey,
) -> Result<(Vec<Arc<Edge>>, Vec<Arc<Execution>>), StoreError> {
    let route = match list {
        ListKey::Members(flow) => flow.route(),
        ListKey::Downstream(id) | ListKey::Upstream(id) => id.route(),
    };
    let partition = route.partition(store.info().partitions);
    let (mut edges, mut executions, mut after) = (Vec::new(), Vec::new(), 0);
    loop {
        let loaded = store.load(partition, vec![Ask::List { list, after, limit: PAGE }]).await?;
        let mut count = 0;
        for answer in loaded.answers {
            if let Answer::List { entries, edges: some, executions: others, .. } = answer {
                count = entries.len();
                after = entries.last().map_or(after, |(number, _)| *number);
                edges.extend(some);
                executions.extend(others);
            }
        }
        if count < PAGE {
            return Ok((edges, executions));
        }
    }
}

fn null() -> Value {
    RawValue::NULL.to_owned()
}

/// A payload as a JSON value: JSON as it is, text as a string, other bytes with their type and in base64.
fn value(payload: Option<&Payload>) -> Value {
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
            "base64": ff_core::base64::encode(&payload.bytes),
        }),
    };
    to_raw_value(&value).unwrap_or_else(|_| null())
}

fn merge(own: &Payload, given: BTreeMap<String, Value>) -> Payload {
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
}
