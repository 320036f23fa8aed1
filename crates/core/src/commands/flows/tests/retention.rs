//! Members leave only with their flow.

use super::*;
use crate::agenda::Subject;

const DAY_MS: crate::Ms = 24 * 3_600_000;

#[test]
fn a_flow_leaves_with_all_its_members_and_edges_when_it_is_old_enough() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        play.create("a b c a>b b>c");
        play.complete("a b");
        play.bench.pass(20 * DAY_MS);
        assert_eq!(play.states("a b"), ["completed", "completed"], "the flow has not ended");
        let fence = play.fence("c");
        play.bench.ok(complete(fence));
        assert_eq!(play.refused(remove(play.ids["a"])), "in_flow");
        play.bench.pass(7 * DAY_MS - 1);
        assert_eq!(play.bench.store.executions.len(), 3);
        play.bench.pass(1_001);
        let store = &play.bench.store;
        assert!(store.flows.is_empty() && store.edges.is_empty() && store.executions.is_empty());
        assert!(store.payloads.is_empty() && store.ended.is_empty());
    }
}

#[test]
fn a_large_flow_is_removed_in_parts() {
    let mut play = Play::new();
    let text: String = (0..900).map(|n| format!("n{n} ")).collect();
    let edges: String = (1..900).map(|n| format!("n0!n{n} ")).collect();
    play.create(&(text + &edges));
    play.complete("n0");
    assert_eq!(play.flow_state(), FlowState::Completed);
    play.bench.pass(8 * DAY_MS);
    assert!(play.bench.store.executions.is_empty() && play.bench.store.edges.is_empty());
    assert!(play.bench.store.flows.is_empty());
}

#[test]
fn a_replay_cancels_the_removal_of_its_flow() {
    let mut play = Play::of("a b a>b");
    play.complete("a b");
    play.bench.pass(7 * DAY_MS - 1);
    play.bench.ok(replay(play.ids["a"]));
    play.bench.pass(DAY_MS);
    assert_eq!(play.states("a b"), ["waiting", "completed"]);
}

#[test]
fn children_of_a_member_that_nobody_has_cancelled_yet_end_when_its_flow_is_removed() {
    for memory in [Memory::Everything, Memory::Nothing] {
        let mut play = Play::new();
        play.bench.memory = memory;
        play.create("a");
        let fence = play.fence("a");
        let start = start_child(fence);
        play.bench.ok(start.clone());
        play.bench.ok(complete(fence));
        // Nobody looks at the agenda for a week, and then at the sweep first.
        play.bench.jump(8 * DAY_MS);
        let sweep = play.bench.store.agenda.keys().find(|key| key.subject == Subject::Sweep).copied();
        play.bench.fire(sweep.unwrap());
        assert!(play.bench.store.flows.is_empty());
        assert_eq!(play.bench.state(start.create.id), ("cancelled", "parent_ended"));
        play.bench.pass(0);
    }
}
