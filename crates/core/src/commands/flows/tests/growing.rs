//! A member that completes adds what comes after it.

use super::*;
use crate::commands::Expand;

fn expand(play: &mut Play, name: &str, text: &str) -> Expand {
    let fence = play.fence(name);
    let (nodes, edges) = play.parts(text);
    Expand { fence, result: None, nodes, edges }
}

#[test]
fn a_completing_member_fans_out_between_itself_and_what_waits_for_it() {
    let mut play = Play::of("split join split>join");
    let command = expand(&mut play, "split", "x y split>x split>y x>join y>join");
    play.run(command.clone()).unwrap();
    assert_eq!(play.states("split x y join"), ["completed", "waiting", "waiting", "waiting_children"]);
    assert_eq!(play.run(command), Ok(Reply::LeaseEnded(crate::execution::How::Completed)), "said again");
    play.complete("x y");
    assert_eq!(play.state("join"), "waiting");
    play.complete("join");
    assert_eq!(play.flow_state(), FlowState::Completed);
    assert_eq!((play.record().live.nodes, play.record().live.edges), (4, 5));
}

#[test]
fn what_a_member_adds_comes_after_itself() {
    let cases = [
        ("x? split>x", "invalid"),
        ("x before>x", "group_closed"),
        ("x x>elsewhere", "group_closed"),
        ("x x>before", "group_closed"),
        ("split>elsewhere", "group_closed"),
        ("x x>split", "group_closed"),
        ("x split>x x>done", "group_closed"),
    ];
    for (text, code) in cases {
        let mut play = Play::of(
            "before split join before>split split>join elsewhere done:any~ split>done other other>done",
        );
        play.complete("before other");
        let command = expand(&mut play, "split", text);
        assert_eq!(play.refused(command), code, "{text}");
        assert_eq!(play.state("split"), "active", "a refusal changes nothing");
        play.complete("split");
    }
}

#[test]
fn a_member_of_no_flow_and_one_of_a_cancelled_flow_add_nothing() {
    let mut play = Play::new();
    let fence = play.bench.active();
    let command = Expand { fence, result: None, nodes: Vec::new(), edges: Vec::new() };
    assert_eq!(play.refused(command), "invalid");
    let mut play = Play::of("a b a>b");
    let command = expand(&mut play, "a", "x a>x");
    play.bench.ok(cancel_flow(play.flow, crate::flow::CancelPolicy::CancelPending));
    assert_eq!(play.refused(command), "flow_cancelled");
    play.complete("a");
    assert_eq!(play.flow_state(), FlowState::Cancelled);
}

#[test]
fn a_member_cannot_use_a_name_of_its_flow_again() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        play.create("split join split>join");
        assert!(play.bench.store.dedup.is_empty(), "most flows never grow");
        let mut command = expand(&mut play, "split", "x y split>x split>y x>join y>join");
        command.nodes[1].name = Some("join".parse().unwrap());
        let told = play.run(command.clone()).unwrap_err().to_string();
        assert!(told.contains(r#"nodes.name is "join""#), "{told}");
        assert!(play.bench.store.dedup.is_empty());
        command.nodes[1].name = Some("y".parse().unwrap());
        play.run(command).unwrap();
        assert_eq!(play.bench.store.dedup.len(), 4);
        let mut again = expand(&mut play, "x", "z x>z");
        again.nodes[0].name = Some("y".parse().unwrap());
        assert_eq!(play.refused(again.clone()), "invalid");
        again.nodes[0].name = Some("z".parse().unwrap());
        play.run(again).unwrap();
        play.complete("y z join");
        assert_eq!(play.flow_state(), FlowState::Completed);
        play.bench.pass(8 * 24 * 3_600_000);
        assert!(play.bench.store.dedup.is_empty() && play.bench.store.executions.is_empty());
    }
}
