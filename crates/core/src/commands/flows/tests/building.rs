//! What a graph takes and what it refuses.

use super::*;
use crate::commands::flows::{AddEdges, AddNodes, SetGroupPolicy};
use crate::flow::{CancelPolicy, GroupState};

fn add_edges(play: &mut Play, text: &str) -> AddEdges {
    let (_, edges) = play.parts(text);
    AddEdges { flow: play.flow, expected_revision: None, edges, actor: "op".into() }
}

fn add_nodes(play: &mut Play, text: &str) -> AddNodes {
    let (nodes, edges) = play.parts(text);
    AddNodes { flow: play.flow, expected_revision: None, nodes, edges, actor: "op".into() }
}

#[test]
fn what_a_graph_cannot_have_is_refused_and_leaves_nothing_behind() {
    let cases = [
        ("an edge to itself", "a a>a", "cycle"),
        ("a cycle of two", "a b a>b b>a", "cycle"),
        ("a long cycle", "a b c d a>b b>c c>d d>b", "cycle"),
        ("an edge twice", "a b a>b a>b", "duplicate_edge"),
        ("an edge twice under other conditions", "a b a>b a!b", "duplicate_edge"),
        ("an edge to nothing", "a a>ghost", "not_found"),
        ("an edge from nothing", "a ghost>a", "not_found"),
        ("a quorum of none", "a b:0 a>b", "invalid"),
        ("a quorum larger than its group", "a b:2 a>b", "quorum_impossible"),
        ("any of nothing", "a:any", "quorum_impossible"),
    ];
    for (name, text, code) in cases {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut play = Play::new();
            play.bench.memory = memory;
            let command = play.sketch(text);
            assert_eq!(play.refused(command), code, "{name}");
            let store = &play.bench.store;
            assert!(
                store.flows.is_empty() && store.edges.is_empty() && store.executions.is_empty(),
                "{name}"
            );
        }
    }
}

#[test]
fn later_edges_are_refused_where_the_graph_is_closed() {
    let mut play = Play::new();
    play.create_open("a b a>b open?");
    let other = play.bench.create();
    play.ids.insert("other".to_owned(), other);
    let namespace = crate::name::Namespace::parse("theirs").unwrap();
    let foreign = crate::commands::Create { namespace, ..play.bench.submission() };
    play.ids.insert("foreign".to_owned(), foreign.id);
    play.bench.ok(foreign);
    let cases = [
        ("a>b", "duplicate_edge"),
        ("open>b", "group_closed"),
        ("b>a", "group_closed"),
        ("other>open", "other_flow"),
        ("ghost>open", "not_found"),
        ("foreign>open", "not_found"),
        ("open>open", "cycle"),
    ];
    for (text, code) in cases {
        let command = add_edges(&mut play, text);
        assert_eq!(play.refused(command), code, "{text}");
    }
    let command = add_edges(&mut play, "b>open");
    play.run(command).unwrap();
    let command = add_edges(&mut play, "b>open");
    assert_eq!(play.refused(command), "duplicate_edge");
    play.bench.ok(seal(play.flow));
    let command = add_edges(&mut play, "a>open");
    assert_eq!(play.refused(command), "flow_closed");
    let command = add_nodes(&mut play, "late");
    assert_eq!(play.refused(command), "flow_closed");
    play.complete("a b open");
    let command = add_nodes(&mut play, "later");
    assert_eq!(play.refused(command), "flow_ended");
}

#[test]
fn a_cycle_over_open_nodes_is_found_whatever_the_order_of_edges() {
    let mut play = Play::new();
    let text: String = (0..40).map(|n| format!("n{n}? ")).collect();
    play.create_open(&text);
    // Against the order in which the nodes were made, so that levels must move.
    for n in (1..40).rev() {
        let command = add_edges(&mut play, &format!("n{n}>n{}", n - 1));
        play.run(command).unwrap();
    }
    for (from, to) in [(0, 39), (0, 1), (5, 30), (38, 39)] {
        let command = add_edges(&mut play, &format!("n{from}>n{to}"));
        assert_eq!(play.refused(command), "cycle", "{from} {to}");
    }
    let command = add_edges(&mut play, "n39>n0");
    play.run(command).unwrap();
}

#[test]
fn an_open_node_is_neither_ready_nor_impossible_until_it_or_its_flow_is_sealed() {
    for whole_flow in [false, true] {
        let mut play = Play::new();
        play.create_open("a free? joined? a>joined");
        play.fail("a");
        assert_eq!(play.states("free joined"), ["waiting_children", "waiting_children"]);
        play.claim_all();
        assert_eq!(play.states("free joined"), ["waiting_children", "waiting_children"]);
        if whole_flow {
            play.bench.ok(seal(play.flow));
        } else {
            for name in ["free", "joined", "joined"] {
                let seal = crate::commands::Seal { node: Some(play.ids[name]), ..seal(play.flow) };
                play.bench.ok(seal);
            }
        }
        assert_eq!(play.states("free joined"), ["waiting", "skipped"]);
        assert_eq!(play.record().live.open_nodes, 0);
    }
}

#[test]
fn an_upstream_that_had_ended_before_the_edge_counts_at_once() {
    let mut play = Play::new();
    play.create_open("done broken a?");
    play.complete("done");
    play.fail("broken");
    let command = add_nodes(&mut play, "after done>after");
    play.run(command).unwrap();
    let command = add_nodes(&mut play, "cleanup broken!cleanup");
    play.run(command).unwrap();
    let command = add_nodes(&mut play, "never broken>never");
    play.run(command).unwrap();
    assert_eq!(play.states("after cleanup never"), ["waiting", "waiting", "skipped"]);
}

#[test]
fn a_policy_is_fixed_with_the_first_edge() {
    let mut play = Play::new();
    play.create_open("a b j?");
    let (flow, j) = (play.flow, play.ids["j"]);
    assert_eq!(play.run(set_group_policy(flow, j, join("all"))), Ok(Reply::PolicySet { already: true }));
    assert_eq!(play.run(set_group_policy(flow, j, join("2"))), Ok(Reply::PolicySet { already: false }));
    assert_eq!(play.refused(set_group_policy(flow, j, join("0"))), "invalid");
    assert_eq!(play.refused(seal(flow)), "invalid", "two edges are asked for and there are none");
    let command = add_edges(&mut play, "a>j");
    play.run(command).unwrap();
    assert_eq!(play.run(set_group_policy(flow, j, join("2"))), Ok(Reply::PolicySet { already: true }));
    assert_eq!(play.refused(set_group_policy(flow, j, join("any"))), "policy_fixed");
    let seal_node = crate::commands::Seal { node: Some(j), ..seal(flow) };
    assert_eq!(play.refused(seal_node.clone()), "quorum_impossible");
    let command = add_edges(&mut play, "b>j");
    play.run(command).unwrap();
    play.run(seal_node).unwrap();
    play.complete("a b");
    assert_eq!(play.state("j"), "waiting");
    assert_eq!(play.get("j").node().unwrap().group.state, GroupState::Satisfied);
    let a = play.ids["a"];
    assert_eq!(play.refused(set_group_policy(flow, a, join("any"))), "group_closed");
}

#[test]
fn a_change_can_require_the_revision_it_was_made_for() {
    let mut play = Play::new();
    play.create_open("a b? d?");
    assert_eq!(play.record().live.revision, 1);
    let command = AddEdges { expected_revision: Some(7), ..add_edges(&mut play, "a>b") };
    assert_eq!(play.refused(command.clone()), "revision_mismatch");
    play.run(AddEdges { expected_revision: Some(1), ..command }).unwrap();
    assert_eq!(play.record().live.revision, 2);
    let nodes = add_nodes(&mut play, "c? a>c");
    let (flow, b, d) = (play.flow, play.ids["b"], play.ids["d"]);
    let seal_node = crate::commands::Seal { node: Some(b), ..seal(flow) };
    let before = play.bench.store.clone();
    let stale = Some(1);
    assert_eq!(play.refused(AddNodes { expected_revision: stale, ..nodes.clone() }), "revision_mismatch");
    assert_eq!(
        play.refused(SetGroupPolicy { expected_revision: stale, ..set_group_policy(flow, d, join("any")) }),
        "revision_mismatch"
    );
    for seal in [seal(flow), seal_node.clone()] {
        let seal = crate::commands::Seal { expected_revision: stale, ..seal };
        assert_eq!(play.refused(seal), "revision_mismatch");
    }
    assert_eq!(play.bench.store, before, "nothing is left of them");
    play.run(AddNodes { expected_revision: Some(2), ..nodes }).unwrap();
    play.run(SetGroupPolicy { expected_revision: Some(3), ..set_group_policy(flow, d, join("any")) })
        .unwrap();
    let again = SetGroupPolicy { expected_revision: Some(3), ..set_group_policy(flow, d, join("any")) };
    assert_eq!(
        play.run(again),
        Ok(Reply::PolicySet { already: true }),
        "said again after its answer was lost"
    );
    let revision = Some(play.record().live.revision);
    assert_eq!(revision, Some(4));
    play.run(crate::commands::Seal { expected_revision: revision, ..seal_node }).unwrap();
}

#[test]
fn a_creation_that_is_repeated_finds_the_flow_and_other_content_is_refused() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        let command = play.sketch("a b a>b");
        assert!(matches!(play.run(command.clone()), Ok(Reply::Flow { existing: false, .. })));
        assert!(matches!(play.run(command.clone()), Ok(Reply::Flow { existing: true, .. })));
        let other = CreateFlow { sealed: true, ..command };
        assert_eq!(play.refused(other), "flow_mismatch");
        let command = add_nodes(&mut play, "c b>c");
        assert!(matches!(play.run(command.clone()), Ok(Reply::Flow { existing: false, .. })));
        assert!(matches!(play.run(command), Ok(Reply::Flow { existing: true, .. })));
        assert_eq!(play.record().live.nodes, 3);
    }
}

#[test]
fn more_than_a_thousand_nodes_or_edges_in_one_call_are_refused() {
    let mut play = Play::new();
    let text: String = (0..1_001).map(|n| format!("n{n} ")).collect();
    let command = play.sketch(&text);
    assert_eq!(play.refused(command), "invalid");
    // 1,000 edges among 1,000 nodes are the most; one more is too many, of new nodes and of those that are there.
    let nodes: String = (0..1_000).map(|n| format!("n{n}? ")).collect();
    let edges = |count: usize| -> String {
        (0..count).map(|n| format!("n{}>n{} ", n % 500, 500 + (n + n / 500) % 500)).collect()
    };
    let command = play.sketch(&(nodes.clone() + &edges(1_001)));
    let told = play.run(command).unwrap_err().to_string();
    assert!(told.contains("edges are 1001 in number; allowed are at most 1000 in one call"), "{told}");
    assert!(play.bench.store.flows.is_empty() && play.bench.store.edges.is_empty());
    play.create_open(&(nodes + &edges(1_000)));
    assert_eq!((play.record().live.nodes, play.record().live.edges), (1_000, 1_000));
    let more: String =
        (0..1_001).map(|n| format!("n{}>n{} ", n % 500, 500 + (2 + n + n / 500) % 500)).collect();
    let command = add_edges(&mut play, &more);
    assert_eq!(play.refused(command), "invalid");
    assert_eq!(play.record().live.edges, 1_000);
}

#[test]
fn a_node_of_another_route_is_refused() {
    let mut play = Play::new();
    let mut command = play.sketch("a");
    command.nodes[0].create.id = ExecutionId::from_parts(play.bench.now, Route(9), 1);
    assert_eq!(play.refused(command), "invalid");
}

#[test]
fn a_sealed_flow_without_members_is_completed() {
    let mut play = Play::of("");
    assert_eq!(play.flow_state(), FlowState::Completed);
    let flow = FlowId::from_parts(play.bench.now, Route(0), 77);
    play.bench.ok(empty_flow(flow));
    assert_eq!(play.bench.store.flows[&flow].state(), FlowState::Open);
    play.bench.ok(seal(flow));
    assert_eq!(play.bench.store.flows[&flow].state(), FlowState::Completed);
    assert_eq!(play.refused(cancel_flow(flow, CancelPolicy::CancelAll)), "flow_ended");
}

#[test]
fn tags_of_a_flow_are_set_and_removed_and_an_unknown_flow_is_not_found() {
    let mut play = Play::of("a");
    let tag = |flow, set: &[(&str, &str)]| crate::commands::TagFlow {
        flow,
        set: set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        remove: Vec::new(),
        actor: "op".into(),
        cause: "test".into(),
    };
    play.run(tag(play.flow, &[("team", "red")])).unwrap();
    assert_eq!(play.record().live.tags.get("team"), Some("red"));
    assert_eq!(play.record().live.tags.get("other"), None);
    assert_eq!(play.refused(tag(play.flow, &[("Bad Key", "x")])), "invalid");
    let ghost = FlowId::from_parts(play.bench.now, Route(0), 5);
    assert_eq!(play.refused(tag(ghost, &[("team", "red")])), "not_found");
}

#[test]
fn a_name_is_there_once_in_a_flow_however_late_a_node_comes() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        let mut twice = play.sketch("a b");
        twice.nodes[1].name = twice.nodes[0].name.clone();
        assert_eq!(play.refused(twice), "invalid");
        play.create_open("a b");
        let mut late = add_nodes(&mut play, "c d");
        late.nodes[1].name = Some("b".parse().unwrap());
        let before = (play.bench.store.dedup.len(), play.record().live.nodes);
        let told = play.run(late.clone()).unwrap_err().to_string();
        assert!(told.contains(r#"nodes.name is "b" as that of "#), "{told}");
        assert_eq!((play.bench.store.dedup.len(), play.record().live.nodes), before, "nothing is left of it");
        late.nodes[1].name = Some("d".parse().unwrap());
        play.run(late.clone()).unwrap();
        assert!(matches!(play.run(late), Ok(Reply::Flow { existing: true, .. })), "said again");
        let mut none = add_nodes(&mut play, "e f");
        none.nodes.iter_mut().for_each(|node| node.name = None);
        play.run(none).unwrap();
        let mut other = Play::on(play.bench);
        other.flow = FlowId::from_parts(1, Route(0), 2_000_000);
        other.create_open("b");
        assert_eq!(other.record().live.nodes, 1, "another flow has names of its own");
    }
}

#[test]
fn a_name_is_looked_up_without_reading_the_nodes() {
    let mut play = Play::new();
    let names: Vec<String> = (0..50).map(|n| format!("n{n}")).collect();
    play.create_open(&names.join(" "));
    let command = add_nodes(&mut play, "late").into();
    let bench = &mut play.bench;
    bench.ws = crate::workspace::Workspace::new(bench.ws.partition, 1, bench.ws.limits.clone());
    bench.ws.learn(bench.store.answer(&crate::key::Ask::Opening));
    let mut asked = Vec::new();
    while let Err(stop) = crate::commands::decide(&mut bench.ws, bench.now, &command) {
        let crate::workspace::Stop::Need(asks) = stop else { panic!("{stop:?}") };
        asks.iter().for_each(|ask| bench.ws.learn(bench.store.answer(ask)));
        asked.extend(asks);
    }
    let node = play.ids["late"];
    for ask in &asked {
        use crate::key::{Ask, Key};
        let few = match ask {
            Ask::Record(Key::Flow(_) | Key::Dedup(_)) => true,
            Ask::Record(Key::Execution(id)) => *id == node,
            _ => false,
        };
        assert!(few, "{ask:?}");
    }
}
