//! A failed member runs again: what its failure skipped is open again, what has run stays run.

use super::*;

#[test]
fn a_replay_reopens_exactly_what_its_failure_skipped() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        play.create("a other b c d a>b b>c other>d a>d cleanup a!cleanup ran");
        play.fail("a");
        play.fail("other");
        play.complete("ran cleanup");
        assert_eq!(play.flow_state(), FlowState::Failed);
        assert_eq!(play.states("b c d"), ["skipped", "skipped", "skipped"]);
        play.bench.ok(replay(play.ids["a"]));
        assert_eq!(play.flow_state(), FlowState::Running);
        assert_eq!(play.states("a b c"), ["waiting", "waiting_children", "waiting_children"]);
        assert_eq!(play.state("d"), "skipped", "the other one is still missing");
        assert_eq!(play.states("cleanup ran"), ["completed", "completed"], "what has run stays run");
        play.complete("a b c");
        assert_eq!(play.flow_state(), FlowState::Failed, "the other one has failed");
        play.bench.ok(replay(play.ids["other"]));
        assert_eq!(play.state("d"), "waiting_children");
        play.complete("other d");
        assert_eq!(play.flow_state(), FlowState::Completed);
    }
}

#[test]
fn a_skipped_member_is_replayed_through_what_skipped_it() {
    let mut play = Play::of("a b a>b");
    play.fail("a");
    assert_eq!(play.refused(replay(play.ids["b"])), "skipped_by_others");
}

#[test]
fn a_member_that_was_cancelled_while_it_waited_waits_again() {
    let mut play = Play::of("a b c a>b b>c");
    play.cancel("b");
    assert_eq!(play.state("c"), "skipped");
    play.bench.ok(replay(play.ids["b"]));
    assert_eq!(play.states("b c"), ["waiting_children", "waiting_children"]);
    play.complete("a b c");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn a_replay_that_fails_again_skips_again() {
    let mut play = Play::of("a b c a>b b>c");
    for series in 1..=3 {
        play.fail("a");
        assert_eq!(play.states("b c"), ["skipped", "skipped"]);
        assert_eq!(play.flow_state(), FlowState::Failed);
        assert_eq!(play.get("c").live.series.number, series);
        play.bench.ok(replay(play.ids["a"]));
    }
    play.complete("a b c");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn what_a_join_did_without_runs_again_when_somebody_asks_for_it() {
    let mut play = Play::of("a b j:any a>j b>j");
    play.complete("a");
    assert_eq!((play.state("b"), play.reason("b")), ("cancelled", "sibling_quorum_satisfied"));
    play.complete("j");
    assert_eq!(play.flow_state(), FlowState::Completed);
    for name in ["a", "b"] {
        play.bench.ok(replay(play.ids[name]));
        assert_eq!((play.state(name), play.flow_state()), ("waiting", FlowState::Running), "{name}");
        play.complete(name);
        assert_eq!(play.flow_state(), FlowState::Completed);
    }
    assert_eq!(play.facts("j").iter().filter(|fact| **fact == "admitted").count(), 1);
}

#[test]
fn a_replayed_member_does_not_move_a_join_that_has_run() {
    let mut play = Play::of("a b j:any~ a>j b>j");
    play.complete("a j b");
    play.bench.ok(replay(play.ids["a"]));
    assert_eq!(play.state("j"), "completed");
    play.fail("a");
    assert_eq!(play.flow_state(), FlowState::Completed, "the join had been satisfied without it");
}
