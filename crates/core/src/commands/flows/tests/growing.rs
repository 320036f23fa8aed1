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
