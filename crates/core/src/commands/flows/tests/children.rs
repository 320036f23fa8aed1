//! A node that is a flow of its own.

use super::*;
use crate::commands::{CancelFlow, NewChild};
use crate::flow::{CancelPolicy, ChildState};
use crate::id::PartitionId;
use crate::limits::Limits;

/// A flow with one node `child` that is the flow of `inner`.
fn nested(outer: &str, inner: &str) -> Play {
    let mut play = Play::new();
    nest(&mut play, outer, inner);
    play
}

fn nest(play: &mut Play, outer: &str, inner: &str) {
    let command = sketch(play, outer, inner);
    assert!(matches!(play.run(command), Ok(Reply::Flow { existing: false, .. })));
}

fn sketch(play: &mut Play, outer: &str, inner: &str) -> CreateFlow {
    let child = new_child(play, 1, inner);
    let mut command = CreateFlow { sealed: true, ..play.sketch(outer) };
    let id = play.ids["child"];
    let node = command.nodes.iter_mut().find(|node| node.create.id == id).expect("a node of that name");
    node.child = Some(Box::new(child));
    command
}

fn new_child(play: &mut Play, number: u64, text: &str) -> NewChild {
    let (nodes, edges) = play.parts(text);
    let id = FlowId::from_parts(play.bench.now, Route(play.bench.ws.partition.0), 2_000_000 + number);
    NewChild { id, kind: "inner".parse().unwrap(), tags: Default::default(), nodes, edges, sealed: true }
}

fn child(play: &Play) -> &Flow {
    let id = play.get("child").child_flow().expect("it is a child flow");
    &play.bench.store.flows[&id]
}

fn cancel_flow(flow: FlowId, policy: CancelPolicy) -> CancelFlow {
    CancelFlow { flow, policy, members_after: 0, actor: "ann".into(), cause: "enough".into() }
}

#[test]
fn a_child_flow_begins_when_its_nodes_turn_has_come_and_ends_its_node() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        nest(&mut play, "a child after a>child child>after", "x y x>y");
        assert_eq!(
            play.states("a child x y"),
            ["waiting", "waiting_children", "waiting_children", "waiting_children"]
        );
        assert_eq!(play.reason("child"), "waiting_for_dependencies");
        assert_eq!((child(&play).state(), child(&play).spec.depth), (FlowState::Blocked, 1));
        play.complete("a");
        assert_eq!((play.state("child"), play.reason("child")), ("waiting_children", "child_flow"));
        assert_eq!(play.states("x y"), ["waiting", "waiting_children"]);
        assert_eq!(play.flow_state(), FlowState::Running, "its child flow moves");
        play.complete("x y");
        assert_eq!(child(&play).state(), FlowState::Completed);
        assert_eq!(play.states("child after"), ["completed", "waiting"]);
        play.complete("after");
        assert_eq!(play.flow_state(), FlowState::Completed);
        assert_eq!(play.facts("child"), ["created", "blocked", "completed"]);
    }
}

#[test]
fn a_child_flow_without_dependencies_begins_at_once_and_an_empty_one_is_complete() {
    let mut play = nested("child", "x");
    assert_eq!(play.states("child x"), ["waiting_children", "waiting"]);
    play.complete("x");
    assert_eq!(play.flow_state(), FlowState::Completed);
    let empty = nested("child after child>after", "");
    assert_eq!(empty.states("child after"), ["completed", "waiting"]);
}

#[test]
fn the_node_of_a_failed_child_flow_has_failed() {
    let mut play = nested("child after child>after repair child!repair", "x y");
    play.fail("x");
    assert_eq!(play.state("child"), "waiting_children", "the other one still runs");
    play.complete("y");
    assert_eq!((play.state("child"), play.reason("child")), ("failed", "child_flow_failed"));
    assert_eq!(play.states("after repair"), ["skipped", "waiting"]);
    play.complete("repair");
    assert_eq!(play.flow_state(), FlowState::Failed);
}

#[test]
fn a_flow_whose_child_flow_rests_is_blocked() {
    let mut play = nested("child", "x");
    play.bench.ok(hold(play.ids["x"]));
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Blocked, FlowState::Blocked));
    assert_eq!(play.get("child").node().unwrap().child, Some(ChildState::Rests));
    play.bench.ok(unhold(play.ids["x"]));
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Running, FlowState::Running));
}

#[test]
fn cancelling_a_node_cancels_its_child_flow_and_a_replay_runs_what_did_not_complete() {
    let mut play = nested("child after child>after", "x y z y>z");
    play.complete("x");
    play.fence("y");
    play.cancel("child");
    assert_eq!(play.states("child x y z"), ["cancelled", "completed", "cancelled", "cancelled"]);
    assert_eq!(play.reason("y"), "flow_cancelled");
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Cancelled, FlowState::Failed));
    assert_eq!(play.refused(replay(play.ids["y"])), "flow_cancelled");
    play.bench.ok(replay(play.ids["child"]));
    assert_eq!(play.states("child x y z"), ["waiting_children", "completed", "waiting", "waiting_children"]);
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Running, FlowState::Running));
    play.complete("y z after");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn a_child_flow_that_never_began_ends_with_its_skipped_node_and_comes_back_with_it() {
    let mut play = nested("a child a>child", "x y x>y");
    play.fail("a");
    assert_eq!(play.states("child x y"), ["skipped", "cancelled", "cancelled"]);
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Cancelled, FlowState::Failed));
    play.bench.ok(replay(play.ids["a"]));
    assert_eq!(play.states("child x y"), ["waiting_children"; 3]);
    assert_eq!(child(&play).state(), FlowState::Blocked);
    play.complete("a x y");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn a_member_of_a_failed_child_flow_that_is_replayed_opens_every_flow_around_it() {
    let mut play = nested("child after child>after", "x y x>y");
    play.fail("x");
    assert_eq!(play.states("child after y"), ["failed", "skipped", "skipped"]);
    assert_eq!(play.flow_state(), FlowState::Failed);
    play.bench.ok(replay(play.ids["x"]));
    assert_eq!(
        play.states("child after x y"),
        ["waiting_children", "waiting_children", "waiting", "waiting_children"]
    );
    assert_eq!(play.flow_state(), FlowState::Running);
    play.complete("x y after");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn cancelling_the_flow_around_passes_its_policy_down() {
    let mut play = nested("child other", "x y x>y");
    play.fence("x");
    play.bench.ok(cancel_flow(play.flow, CancelPolicy::CancelPending));
    play.bench.pass(0);
    assert_eq!(play.states("child x y"), ["waiting_children", "active", "cancelled"]);
    assert_eq!(play.flow_state(), FlowState::Running);
    play.complete("x");
    assert_eq!(play.states("child x"), ["cancelled", "completed"]);
    play.complete("other");
    assert_eq!(play.flow_state(), FlowState::Cancelled);

    let mut play = nested("a child a>child", "x y");
    play.bench.ok(cancel_flow(play.flow, CancelPolicy::CancelAll));
    assert_eq!(play.states("a child x y"), ["cancelled"; 4]);
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Cancelled, FlowState::Cancelled));
    assert_eq!(play.refused(replay(play.ids["x"])), "flow_cancelled");
}

#[test]
fn a_flow_is_not_over_before_its_child_flows_are() {
    let limits = Limits { cascade_edges_max: 4, ..Limits::default() };
    let mut play = Play::on(Bench::of(PartitionId(0), 1, limits));
    let inner: String = (0..50).map(|n| format!("m{n} ")).collect();
    nest(&mut play, "child other", &inner);
    play.complete("other");
    play.cancel("child");
    assert_eq!(play.state("child"), "cancelled");
    assert!(child(&play).live.summary.live() > 0, "it is cancelled in parts");
    assert_eq!(play.flow_state(), FlowState::Running);
    play.bench.pass(0);
    assert_eq!((child(&play).state(), play.flow_state()), (FlowState::Cancelled, FlowState::Failed));
}

#[test]
fn a_loser_takes_its_child_flow_with_it() {
    let mut play = nested("child other join:any child>join other>join", "x");
    play.fence("x");
    play.complete("other");
    assert_eq!((play.state("child"), play.reason("child")), ("cancelled", "sibling_quorum_satisfied"));
    assert_eq!(play.states("x join"), ["cancelled", "waiting"]);
    play.complete("join");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn the_deadline_of_a_node_ends_its_child_flow() {
    let mut play = Play::new();
    let mut command = sketch(&mut play, "child", "x");
    command.nodes[0].create.deadline = Some(crate::commands::When::In(5_000));
    play.run(command).unwrap();
    play.fence("x");
    play.bench.pass(5_000);
    assert_eq!(play.states("child x"), ["expired", "cancelled"]);
    assert_eq!(play.flow_state(), FlowState::Failed);
}

#[test]
fn a_child_flow_starts_after_its_nodes_delay() {
    let mut play = Play::new();
    let mut command = sketch(&mut play, "child", "x");
    command.nodes[0].create.start = Some(crate::commands::When::In(5_000));
    play.run(command).unwrap();
    assert_eq!(play.states("child x"), ["delayed", "waiting_children"]);
    play.bench.pass(5_000);
    assert_eq!(play.states("child x"), ["waiting_children", "waiting"]);
}

#[test]
fn a_running_child_flow_is_not_held_as_a_whole() {
    let mut play = nested("a child a>child", "x");
    play.bench.ok(hold(play.ids["child"]));
    play.complete("a");
    assert_eq!(play.reason("child"), "paused_by_operator");
    assert_eq!(play.state("x"), "waiting_children");
    play.bench.ok(unhold(play.ids["child"]));
    assert_eq!(play.states("child x"), ["waiting_children", "waiting"]);
    assert_eq!(play.refused(hold(play.ids["child"])), "invalid");
}

#[test]
fn child_flows_are_removed_with_the_flow_around_them() {
    let mut play = nested("child", "x y x>y");
    play.complete("x y");
    play.bench.pass(7 * 24 * 3_600_000 + 2_000);
    let store = &play.bench.store;
    assert!(store.flows.is_empty() && store.executions.is_empty() && store.edges.is_empty());
}

#[test]
fn flows_are_nested_up_to_eight_deep() {
    let deep = |play: &mut Play, depth: u64| {
        let mut inner = None;
        for level in (1..=depth).rev() {
            let mut child = new_child(play, level, &format!("n{level}"));
            child.nodes[0].child = inner.take().map(Box::new);
            inner = Some(child);
        }
        let mut command = CreateFlow { sealed: true, ..play.sketch("child") };
        command.nodes[0].child = inner.map(Box::new);
        command
    };
    let mut play = Play::new();
    let command = deep(&mut play, 9);
    let refusal = play.run(command).unwrap_err();
    assert_eq!(refusal.to_string(), "nodes.child is 9 flows deep; allowed are at most 8");
    assert!(play.bench.store.executions.is_empty());
    let command = deep(&mut play, 8);
    play.run(command).unwrap();
    play.bench.pass(0);
    play.complete("n8");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn a_spare_for_a_child_flow_starts_some_time_after_that_has_begun() {
    let mut play = Play::new();
    let mut command = sketch(&mut play, "child spare j:2 child>j spare>j", "x");
    command.nodes[2].hedge = vec![(play.ids["child"], 0), (play.ids["spare"], 2_000)];
    play.run(command).unwrap();
    assert_eq!((play.state("spare"), play.reason("spare")), ("delayed", "hedge"));
    play.bench.pass(1_999);
    assert_eq!(play.state("spare"), "delayed");
    play.complete("x");
    play.bench.pass(1);
    play.complete("spare j");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn a_flow_whose_member_runs_again_and_ends_within_one_commit_ends_anew() {
    let mut play = Play::new();
    let mut command = sketch(&mut play, "child", "");
    command.nodes[0].create.start = Some(crate::commands::When::In(5_000));
    // Flows are settled in the order of their ids; this one before the flow around it.
    let id = FlowId::from_parts(play.bench.now, Route(0), 0);
    assert!(id < command.id);
    command.nodes[0].child.as_mut().unwrap().id = id;
    play.run(command).unwrap();
    play.bench.ok(cancel(play.ids["child"], None));
    assert_eq!(play.flow_state(), FlowState::Failed);
    let told = play.bench.store.events.len();
    // Nothing of its flow has anything to do.
    play.bench.ok(replay(play.ids["child"]));
    assert_eq!((play.state("child"), play.flow_state()), ("completed", FlowState::Completed));
    let words = play.bench.store.events[told..].iter();
    let of_outer: Vec<_> = words.filter(|it| it.flow == Some(play.flow)).map(|it| it.fact.word()).collect();
    assert_eq!(of_outer, ["replayed", "completed", "flow_reopened", "flow_ended"]);
}

#[test]
fn a_flow_stays_as_long_as_a_member_that_ran_again_and_ended_within_one_commit() {
    let mut play = Play::new();
    let mut command = sketch(&mut play, "child", "");
    command.nodes[0].child.as_mut().unwrap().id = FlowId::from_parts(play.bench.now, Route(0), 0);
    play.run(command).unwrap();
    assert_eq!((play.state("child"), play.flow_state()), ("completed", FlowState::Completed));
    let leaves =
        |play: &Play| play.bench.store.flows[&play.flow].live.end.as_ref().and_then(|end| end.remove_at);
    let before = leaves(&play);
    play.bench.pass(5_000);
    // It ends as before, and later.
    play.bench.ok(replay(play.ids["child"]));
    assert_eq!((play.state("child"), play.flow_state()), ("completed", FlowState::Completed));
    assert_eq!(leaves(&play), before.map(|at| at + 5_000));
}
