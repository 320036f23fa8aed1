//! What members of flows are given: results of upstreams under the names of their edges.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{
    Complete, Create, CreateFlow, NewChild, NewEdge, NewNode, Poll, RegisterWorker, Replay,
};
use ff_core::flow::{Join, OnSatisfied};
use ff_core::payload::Slot;
use ff_core::{ExecutionId, FlowId, Kind, LaneName, Payload, WorkerName};
use ff_engine::{Engine, EngineConfig, Task};
use ff_store::MemoryStore;

const NOW: i64 = 1_700_000_000_000;

struct Stand {
    engine: Engine,
    poll: Arc<Poll>,
    flow: FlowId,
}

async fn stand() -> Stand {
    let engine = Engine::start(Arc::new(MemoryStore::new(3)), EngineConfig::default()).await.unwrap();
    let (instance, name) = (engine.new_instance_id(NOW), WorkerName::parse("w").unwrap());
    let lanes = vec![LaneName::default()];
    let command = RegisterWorker {
        instance,
        name: name.clone(),
        lanes: lanes.clone(),
        capabilities: Default::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 60_000,
    };
    engine.execute(command).await.unwrap();
    let (kinds, namespaces, capabilities) = (vec![], vec![], Default::default());
    let poll = Arc::new(Poll { worker: name, instance, lanes, kinds, namespaces, capabilities });
    let flow = engine.new_flow_id(NOW);
    Stand { engine, poll, flow }
}

impl Stand {
    /// A node whose kind and name are the same word.
    fn node(&self, name: &str, input: &'static str) -> NewNode {
        let id = self.engine.new_member_id(NOW, self.flow);
        let create = Create { fresh: true, ..Create::new(id, name.parse().unwrap(), Payload::json(input)) };
        NewNode { name: Some(name.parse().unwrap()), ..NewNode::new(create) }
    }

    async fn create(&self, nodes: Vec<NewNode>, edges: Vec<NewEdge>) {
        let command = CreateFlow {
            id: self.flow,
            fresh: true,
            namespace: Default::default(),
            kind: Kind::parse("test").unwrap(),
            tags: Default::default(),
            nodes,
            edges,
            sealed: true,
            actor: "test".into(),
        };
        self.engine.execute(command).await.unwrap();
    }

    /// The next task, which must be of this kind, and its input.
    async fn take(&self, kind: &str) -> (Task, String) {
        let task = self.engine.poll(self.poll.clone(), 1, Duration::from_secs(10)).await.unwrap().remove(0);
        assert_eq!(task.execution.spec.kind.as_str(), kind);
        let input = String::from_utf8(task.input.bytes.to_vec()).unwrap();
        (task, input)
    }

    async fn complete(&self, task: &Task, result: &'static str) {
        let result = Some(Payload::json(result));
        self.engine.execute(Complete { fence: task.execution.fence(), result }).await.unwrap();
    }
}

fn edge(from: ExecutionId, to: &NewNode, field: &str) -> NewEdge {
    NewEdge { field: Some(field.parse().unwrap()), ..NewEdge::new(from, to.create.id) }
}

#[tokio::test]
async fn a_node_is_given_the_results_of_its_upstreams_under_their_names() {
    let stand = stand().await;
    let (a, b, join) = (stand.node("a", "1"), stand.node("b", "2"), stand.node("join", r#"{"own":true}"#));
    let (from_a, from_b) = (a.create.id, b.create.id);
    let edges = vec![edge(from_a, &join, "left"), edge(from_b, &join, "right")];
    stand.create(vec![a, b, join], edges).await;
    for (kind, input, result) in [("a", "1", r#"{"x":1}"#), ("b", "2", "[2]")] {
        let (task, given) = stand.take(kind).await;
        assert_eq!(given, input);
        stand.complete(&task, result).await;
    }
    let (task, given) = stand.take("join").await;
    assert_eq!(given, r#"{"inputs":{"left":{"x":1},"right":[2]},"own":true}"#);
    stand.complete(&task, r#""done""#).await;
    assert_eq!(&stand.engine.flow_result(stand.flow).await.unwrap().bytes[..], br#""done""#);
}

#[tokio::test]
async fn one_name_on_several_edges_is_a_list_unless_one_is_enough() {
    let stand = stand().await;
    let any = Join::AnyOf { on_satisfied: OnSatisfied::LetRun };
    let (a, b) = (stand.node("a", "0"), stand.node("b", "0"));
    let all = stand.node("all", "null");
    let first = NewNode { join: any, ..stand.node("first", "null") };
    let mut edges = Vec::new();
    for from in [&a, &b] {
        edges.push(edge(from.create.id, &all, "parts"));
        edges.push(edge(from.create.id, &first, "winner"));
    }
    stand.create(vec![a, b, all, first], edges).await;
    let (task, _) = stand.take("a").await;
    stand.complete(&task, "10").await;
    let (task, _) = stand.take("b").await;
    let (first, given) = stand.take("first").await;
    assert_eq!(given, r#"{"inputs":{"winner":10}}"#);
    stand.complete(&task, "20").await;
    let (all, given) = stand.take("all").await;
    assert_eq!(given, r#"{"inputs":{"parts":[10,20]}}"#);
    stand.complete(&first, "1").await;
    stand.complete(&all, "2").await;
    let result = stand.engine.flow_result(stand.flow).await.unwrap();
    assert_eq!(&result.bytes[..], br#"{"all":2,"first":1}"#);
}

#[tokio::test]
async fn a_quorum_of_one_gives_a_list_of_one_where_any_of_gives_the_result() {
    let stand = stand().await;
    let quorum = Join::Quorum { k: 1, on_satisfied: OnSatisfied::LetRun };
    let (a, b) = (stand.node("a", "0"), stand.node("b", "0"));
    let one = NewNode { join: quorum, ..stand.node("one", "null") };
    let edges = vec![edge(a.create.id, &one, "parts"), edge(b.create.id, &one, "parts")];
    stand.create(vec![a, b, one], edges).await;
    let (task, _) = stand.take("a").await;
    stand.complete(&task, "10").await;
    let (rest, _) = stand.take("b").await;
    let (task, given) = stand.take("one").await;
    assert_eq!(given, r#"{"inputs":{"parts":[10]}}"#);
    stand.complete(&rest, "20").await;
    stand.complete(&task, "1").await;
}

#[tokio::test]
async fn the_result_of_a_child_flow_stays_while_a_member_of_it_runs_again() {
    let stand = stand().await;
    let (inner, last) = (stand.node("inner", "1"), stand.node("last", "null"));
    let (first_id, last_id) = (inner.create.id, last.create.id);
    let child = NewChild {
        id: stand.engine.new_child_id(NOW, stand.flow),
        kind: Kind::parse("part").unwrap(),
        tags: Default::default(),
        nodes: vec![inner, last],
        edges: vec![NewEdge::new(first_id, last_id)],
        sealed: true,
    };
    let flow = child.id;
    let node = NewNode { child: Some(Box::new(child)), ..stand.node("child", "null") };
    let id = node.create.id;
    stand.create(vec![node], vec![]).await;
    for (kind, result) in [("inner", "8"), ("last", "9")] {
        let (task, _) = stand.take(kind).await;
        stand.complete(&task, result).await;
    }
    let told = async || {
        let (of_flow, of_node) = (stand.engine.flow_result(flow), stand.engine.payload(id, Slot::Result));
        (of_flow.await.unwrap(), of_node.await.unwrap())
    };
    assert_eq!(stand.engine.wait(id).await.unwrap().result, Some(Payload::json("9")));
    assert_eq!(told().await, (Payload::json("9"), Some(Payload::json("9"))));
    let (actor, cause) = ("ada".into(), "once more".into());
    stand.engine.execute(Replay { execution: last_id, actor, cause, ended_by: None }).await.unwrap();
    let (task, _) = stand.take("last").await;
    assert_eq!(told().await, (Payload::json("9"), None), "its node has not ended anew");
    stand.complete(&task, "10").await;
    assert_eq!(told().await, (Payload::json("10"), Some(Payload::json("10"))));
}

#[tokio::test]
async fn a_child_flow_is_given_what_its_node_is_given_and_gives_its_result() {
    let stand = stand().await;
    let (a, after) = (stand.node("a", "0"), stand.node("after", "null"));
    let (inner, last) = (stand.node("inner", r#"{"k":1}"#), stand.node("last", "null"));
    let inside = vec![NewEdge::new(inner.create.id, last.create.id)];
    let child = NewChild {
        id: stand.engine.new_child_id(NOW, stand.flow),
        kind: Kind::parse("part").unwrap(),
        tags: Default::default(),
        nodes: vec![inner, last],
        edges: inside,
        sealed: true,
    };
    let node = NewNode { child: Some(Box::new(child)), ..stand.node("child", "null") };
    let edges = vec![edge(a.create.id, &node, "seed"), edge(node.create.id, &after, "part")];
    stand.create(vec![a, node, after], edges).await;
    let (task, _) = stand.take("a").await;
    stand.complete(&task, "7").await;
    let (task, given) = stand.take("inner").await;
    assert_eq!(given, r#"{"inputs":{"seed":7},"k":1}"#);
    stand.complete(&task, "8").await;
    let (task, given) = stand.take("last").await;
    assert_eq!(given, "null", "only the first members are given what the node is given");
    stand.complete(&task, "9").await;
    let (_, given) = stand.take("after").await;
    assert_eq!(given, r#"{"inputs":{"part":9}}"#);
}
