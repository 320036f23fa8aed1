//! A flow is cancelled, in each of the three ways, also when it is large.

use super::*;
use crate::commands::CancelFlow;
use crate::flow::CancelPolicy;

/// One member that has completed, one that runs, one that is ready and one that waits.
fn mixed(memory: Memory) -> Play {
    let mut play = Play::new();
    play.bench.memory = memory;
    play.create("done running ready late done>late running>late");
    play.claim_all();
    play.complete("done");
    let fence = play.fences[&play.ids["ready"]];
    play.bench.ok(release(fence));
    play
}

#[test]
fn each_policy_cancels_exactly_the_members_it_names() {
    let cases = [
        (CancelPolicy::FlowOnly, ["completed", "active", "waiting", "waiting_children"]),
        (CancelPolicy::CancelPending, ["completed", "active", "waiting", "cancelled"]),
        (CancelPolicy::CancelAll, ["completed", "cancelled", "cancelled", "cancelled"]),
    ];
    for memory in [Memory::Everything, Memory::Nothing] {
        for (policy, states) in cases {
            let mut play = mixed(memory);
            let completions = play.facts("done");
            play.bench.ok(cancel_flow(play.flow, policy));
            assert_eq!(play.states("done running ready late"), states, "{policy}");
            assert_eq!(play.facts("done"), completions, "an ended member is never touched");
            if policy == CancelPolicy::CancelAll {
                assert_eq!(play.flow_state(), FlowState::Cancelled);
                let facts = play.facts("running");
                assert_eq!(facts[facts.len() - 2..], ["lease_revoked", "cancelled"]);
                assert_eq!(play.reason("running"), "flow_cancelled");
                continue;
            }
            assert_eq!(play.flow_state(), FlowState::Running);
            play.complete("running ready");
            if policy == CancelPolicy::FlowOnly {
                play.complete("late");
            }
            assert_eq!(play.flow_state(), FlowState::Cancelled, "{policy}: with its last member");
        }
    }
}

#[test]
fn a_cancelled_flow_has_no_open_nodes() {
    for policy in [CancelPolicy::FlowOnly, CancelPolicy::CancelPending, CancelPolicy::CancelAll] {
        let mut play = Play::new();
        play.create_open("a b? c:2? a>b");
        play.bench.ok(cancel_flow(play.flow, policy));
        assert_eq!((play.record().live.open_nodes, play.record().live.short_groups), (0, 0), "{policy}");
        assert!(!play.get("c").node().unwrap().open);
    }
}

#[test]
fn a_member_that_has_started_once_is_not_pending() {
    let mut play = Play::new();
    let mut command = play.sketch("a b");
    command.nodes[0].create.policy.max_attempts = 3;
    play.run(command).unwrap();
    let fence = play.fence("a");
    play.bench.ok(fail(fence));
    assert_eq!(play.reason("a"), "retry_backoff");
    let fence = play.fences[&play.ids["b"]];
    play.bench.ok(delay(fence, 1_000));
    play.bench.ok(cancel_flow(play.flow, CancelPolicy::CancelPending));
    assert_eq!(play.states("a b"), ["delayed", "delayed"]);
    play.bench.pass(5_000);
    play.complete("a b");
    assert_eq!(play.flow_state(), FlowState::Cancelled);
}

#[test]
fn cancelling_again_gives_the_same_answer_and_only_a_stricter_policy_does_more() {
    let mut play = mixed(Memory::Everything);
    let first = CancelFlow {
        actor: "ann".into(),
        cause: "first".into(),
        ..cancel_flow(play.flow, CancelPolicy::CancelPending)
    };
    let Ok(Reply::FlowCancelled { members, next: None, .. }) = play.run(first.clone()) else { panic!() };
    let all: Vec<ExecutionId> = ["done", "running", "ready", "late"].map(|name| play.ids[name]).into();
    assert_eq!(members, all);
    let events = play.bench.store.events.len();
    assert!(play.run(first).is_ok() && play.run(cancel_flow(play.flow, CancelPolicy::FlowOnly)).is_ok());
    assert_eq!(play.bench.store.events.len(), events);
    play.bench.ok(cancel_flow(play.flow, CancelPolicy::CancelAll));
    assert_eq!(play.flow_state(), FlowState::Cancelled);
    let cancel = play.record().live.cancel.clone().unwrap();
    assert_eq!(
        (cancel.policy, &*cancel.by.actor, &*cancel.by.cause),
        (CancelPolicy::CancelAll, "ann", "first")
    );
    assert!(play.run(cancel_flow(play.flow, CancelPolicy::CancelAll)).is_ok(), "also when it has ended");
}

#[test]
fn nothing_is_added_to_or_replayed_in_a_cancelled_flow() {
    let mut play = Play::new();
    play.create_open("a open? a>open");
    play.complete("a");
    play.bench.ok(cancel_flow(play.flow, CancelPolicy::CancelAll));
    let (nodes, edges) = play.parts("late");
    let command = crate::commands::AddNodes {
        flow: play.flow,
        expected_revision: None,
        nodes,
        edges,
        actor: "op".into(),
    };
    assert_eq!(play.refused(command), "flow_cancelled");
    assert_eq!(play.refused(replay(play.ids["a"])), "flow_cancelled");
}

#[test]
fn a_large_flow_is_cancelled_in_parts_and_nothing_pending_starts_meanwhile() {
    for policy in [CancelPolicy::CancelPending, CancelPolicy::CancelAll] {
        let mut play = Play::new();
        for part in 0..3 {
            let text: String = (0..1_000).map(|n| format!("n{} ", part * 1_000 + n)).collect();
            let (nodes, edges) = play.parts(&text);
            if part == 0 {
                play.create_open("");
            }
            let actor = "op".into();
            play.run(crate::commands::AddNodes {
                flow: play.flow,
                expected_revision: None,
                nodes,
                edges,
                actor,
            })
            .unwrap();
        }
        let Reply::FlowCancelled { members, next, .. } = play.bench.ok(cancel_flow(play.flow, policy)) else {
            panic!()
        };
        assert_eq!((members.len(), next), (1_000, Some(1_000)));
        let more = CancelFlow { members_after: 2_000, ..cancel_flow(play.flow, policy) };
        let Reply::FlowCancelled { members, next, .. } = play.bench.ok(more) else { panic!() };
        assert_eq!((members.len(), next), (1_000, None));
        let cancelled = play.record().live.summary.get(crate::PublicState::Cancelled);
        assert!((1..3_000).contains(&cancelled), "{cancelled}");
        assert_eq!(play.flow_state(), FlowState::Running);
        let claimed = play.bench.claim_with(play.bench.poll(), 100);
        assert_eq!(claimed, [], "what is to be cancelled does not start");
        play.bench.pass(0);
        assert_eq!(play.record().live.summary.get(crate::PublicState::Cancelled), 3_000);
        assert_eq!(play.flow_state(), FlowState::Cancelled);
    }
}
