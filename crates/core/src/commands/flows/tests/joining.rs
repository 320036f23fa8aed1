//! Endings reach dependents; losers go; failures are absorbed or not.

use super::*;

#[test]
fn a_chain_runs_one_after_the_other_in_the_commit_of_the_ending() {
    for memory in [Memory::Everything, Memory::Windows, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        play.create("a b c a>b b>c");
        assert_eq!(play.states("a b c"), ["waiting", "waiting_children", "waiting_children"]);
        let commits = play.bench.store.log.len();
        play.complete("a");
        assert_eq!(play.states("a b c"), ["completed", "waiting", "waiting_children"]);
        assert!(play.bench.store.log.len() <= commits + 3, "two claims and the completion");
        play.complete("b c");
        assert_eq!(play.flow_state(), FlowState::Completed);
        let facts = ["created", "admitted", "lease_acquired", "started", "lease_released", "completed"];
        assert_eq!(play.facts("b"), facts);
    }
}

#[test]
fn a_skip_names_its_upstream_and_is_passed_on() {
    let mut play = Play::of("a b c d a>b b>c b!d");
    play.fail("a");
    assert_eq!(play.states("b c d"), ["skipped", "skipped", "skipped"]);
    let upstream = |name: &str| play.get(name).end().unwrap().upstream;
    assert_eq!(upstream("b"), Some(play.ids["a"]));
    assert_eq!(upstream("c"), Some(play.ids["b"]));
    assert_eq!(play.flow_state(), FlowState::Failed);
}

#[test]
fn an_edge_on_any_ending_is_satisfied_by_losers_and_skips_too() {
    let mut play =
        Play::of("a b j:any a>j b>j last b*last broken skipped broken>skipped after skipped*after");
    play.claim_all();
    play.complete("a");
    assert_eq!(play.state("b"), "active", "the last one still needs to see how it ends");
    play.fail("broken");
    assert_eq!(play.states("skipped after"), ["skipped", "waiting"]);

    let mut play = Play::of("a b j:any a>j b>j last b*last");
    play.complete("b");
    assert_eq!(play.states("a j last"), ["cancelled", "waiting", "waiting"]);
}

#[test]
fn a_loser_is_an_ending_but_no_failure() {
    let mut play = Play::new();
    play.create_open("a b j:any a>j b>j");
    play.complete("a");
    assert_eq!((play.state("b"), play.reason("b")), ("cancelled", "sibling_quorum_satisfied"));
    let (nodes, edges) = play.parts("after never cleanup b*after b>never b!cleanup");
    let (flow, actor) = (play.flow, "op".into());
    play.run(crate::commands::flows::AddNodes { flow, expected_revision: None, nodes, edges, actor })
        .unwrap();
    assert_eq!(play.states("after never cleanup"), ["waiting", "skipped", "skipped"]);
}

#[test]
fn losers_end_in_the_commit_that_satisfies_the_join_with_completion_and_lease_events() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        play.create("a b c j:any a>j b>j c>j");
        play.claim_all();
        let commits = play.bench.store.log.len();
        play.complete("b");
        assert_eq!(play.bench.store.log.len(), commits + 1);
        assert_eq!(play.states("a b c j"), ["cancelled", "completed", "cancelled", "waiting"]);
        assert_eq!(play.reason("a"), "sibling_quorum_satisfied");
        let facts = play.facts("a");
        assert_eq!(facts[facts.len() - 2..], ["lease_revoked", "cancelled"]);
        let fence = play.fences[&play.ids["a"]];
        assert_eq!(play.refused(complete(fence)), "lease_lost");
        play.complete("j");
        assert_eq!(play.flow_state(), FlowState::Completed, "losers do not fail a flow");
    }
}

#[test]
fn an_upstream_that_another_group_needs_is_not_cancelled_until_it_does_not() {
    let mut play = Play::of("a b c j:any k:any a>j b>j b>k c>k");
    play.claim_all();
    play.complete("a");
    assert_eq!(play.states("b j k"), ["active", "waiting", "waiting_children"]);
    play.complete("c");
    assert_eq!(play.states("b k"), ["cancelled", "waiting"], "now nobody needs it");
}

#[test]
fn the_rest_runs_on_where_the_policy_lets_it() {
    let mut play = Play::of("a b j:any~ a>j b>j");
    play.claim_all();
    play.complete("a");
    assert_eq!(play.states("b j"), ["active", "waiting"]);
    play.complete("j");
    assert_eq!(play.flow_state(), FlowState::Running);
    play.fail("b");
    assert_eq!(play.flow_state(), FlowState::Completed, "the join had absorbed it");
}

#[test]
fn what_only_fed_losers_is_cancelled_with_them_and_a_sink_never_is() {
    let mut play = Play::of("root other mid a b j:any root>mid other>mid mid>b a>j b>j sink other>sink");
    play.claim_all();
    play.complete("a");
    assert_eq!(play.states("b mid root"), ["cancelled", "cancelled", "cancelled"]);
    assert_eq!(play.reason("root"), "sibling_quorum_satisfied");
    assert_eq!(play.states("other sink"), ["active", "waiting_children"], "the sink needs it");
    play.complete("other sink j");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn an_impossible_join_cancels_the_rest_only_where_its_policy_says_so() {
    for (policy, rest) in [("3", "cancelled"), ("3~", "active"), ("all", "active")] {
        let mut play = Play::of(&format!("a b c j:{policy} a>j b>j c>j"));
        play.claim_all();
        play.fail("a");
        assert_eq!(play.states("j b c"), ["skipped", rest, rest], "{policy}");
        if rest == "cancelled" {
            assert_eq!(play.reason("b"), "sibling_quorum_impossible");
        }
    }
}

#[test]
fn clean_up_runs_but_does_not_turn_a_failed_flow_into_a_completed_one() {
    for policy in ["all", "any"] {
        let mut play = Play::of(&format!("a cleanup:{policy} a!cleanup next a>next"));
        play.fail("a");
        assert_eq!(play.states("cleanup next"), ["waiting", "skipped"]);
        play.complete("cleanup");
        assert_eq!(play.flow_state(), FlowState::Failed, "{policy}");

        let mut play = Play::of(&format!("a cleanup:{policy} a!cleanup next a>next"));
        play.complete("a next");
        assert_eq!(play.state("cleanup"), "skipped");
        assert_eq!(play.flow_state(), FlowState::Completed, "clean-up that was not needed fails nothing");
    }
}

#[test]
fn a_member_that_a_person_cancels_counts_as_a_failure() {
    let mut play = Play::of("a cleanup next a!cleanup a>next");
    play.cancel("a");
    assert_eq!(play.states("cleanup next"), ["waiting", "skipped"]);
    play.complete("cleanup");
    assert_eq!(play.flow_state(), FlowState::Failed);
}

#[test]
fn a_deadline_passes_while_a_member_waits_for_others() {
    let mut play = Play::new();
    let mut command = play.sketch("a b c a>b b>c");
    command.sealed = true;
    command.nodes[1].create.deadline = Some(crate::commands::When::In(5_000));
    play.run(command).unwrap();
    play.claim_all();
    play.bench.pass(5_000);
    assert_eq!(play.states("a b c"), ["active", "expired", "skipped"]);
    play.complete("a");
    assert_eq!(play.flow_state(), FlowState::Failed);
}

#[test]
fn a_start_time_holds_a_node_back_after_its_dependencies() {
    let mut play = Play::new();
    let mut command = play.sketch("a b c a>b a>c");
    command.nodes[1].create.start = Some(crate::commands::When::In(10_000));
    play.run(command).unwrap();
    play.complete("a");
    assert_eq!((play.state("b"), play.reason("b")), ("delayed", "waiting_for_delay"));
    assert_eq!(play.state("c"), "waiting");
    play.bench.pass(10_000);
    assert_eq!(play.state("b"), "waiting");
}

#[test]
fn a_held_member_starts_only_when_it_is_released_and_its_dependencies_are_there() {
    let mut play = Play::of("a b c a>b b>c");
    let b = play.ids["b"];
    play.bench.ok(hold(b));
    assert_eq!(play.reason("b"), "paused_by_operator");
    play.bench.ok(unhold(b));
    assert_eq!(play.reason("b"), "waiting_for_dependencies");
    play.bench.ok(hold(b));
    play.complete("a");
    assert_eq!(play.reason("b"), "paused_by_operator");
    assert_eq!(play.flow_state(), FlowState::Blocked, "only a person can move it");
    play.bench.ok(unhold(b));
    assert_eq!(play.reason("b"), "waiting_for_worker");
    assert_eq!(play.flow_state(), FlowState::Running);

    let mut play = Play::of("a b a>b");
    play.bench.ok(hold(play.ids["b"]));
    play.fail("a");
    assert_eq!(play.state("b"), "skipped", "nothing is left to be held for");
}

#[test]
fn a_flow_is_blocked_while_only_time_or_others_can_move_it() {
    let mut play = Play::of("a b a>b");
    assert_eq!(play.flow_state(), FlowState::Running);
    let fence = play.fence("a");
    play.bench.ok(delay(fence, 60_000));
    assert_eq!(play.flow_state(), FlowState::Blocked);
    play.bench.pass(60_000);
    assert_eq!(play.flow_state(), FlowState::Running);
}
