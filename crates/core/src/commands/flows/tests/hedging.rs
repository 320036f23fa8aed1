//! Spares that start only when the one before them takes long.

use super::*;

fn hedged(policy: &str) -> Play {
    let mut play = Play::new();
    let mut command = play.sketch(&format!("a b c j:{policy} a>j b>j c>j"));
    command.sealed = true;
    let list = ["a", "b", "c"].map(|name| play.ids[name]);
    command.nodes[3].hedge = vec![(list[0], 0), (list[1], 2_000), (list[2], 3_000)];
    play.run(command).unwrap();
    play
}

#[test]
fn a_spare_starts_when_the_one_before_it_has_run_for_its_delay() {
    let mut play = hedged("any");
    assert_eq!(play.states("a b c"), ["waiting", "delayed", "delayed"]);
    assert_eq!((play.reason("b"), play.reason("c")), ("hedge", "hedge"));
    play.bench.pass(60_000);
    assert_eq!(play.state("b"), "delayed", "the first one has not started");
    play.claim_all();
    play.bench.pass(1_999);
    assert_eq!(play.state("b"), "delayed");
    play.bench.pass(1);
    assert_eq!(play.states("b c"), ["waiting", "delayed"]);
    play.claim_all();
    play.bench.pass(3_000);
    assert_eq!(play.state("c"), "waiting");
    play.complete("b");
    assert_eq!(play.states("a b c j"), ["cancelled", "completed", "cancelled", "waiting"]);
}

#[test]
fn a_spare_starts_at_once_when_the_one_before_it_failed() {
    let mut play = hedged("any");
    play.fail("a");
    assert_eq!(play.states("b c"), ["waiting", "delayed"]);
    play.fail("b");
    play.fail("c");
    assert_eq!(play.state("j"), "skipped");
}

#[test]
fn spares_that_were_not_needed_are_cancelled_also_where_the_rest_may_run() {
    for policy in ["any", "any~"] {
        let mut play = hedged(policy);
        play.complete("a");
        assert_eq!(play.states("b c j"), ["cancelled", "cancelled", "waiting"], "{policy}");
        play.complete("j");
        assert_eq!(play.flow_state(), FlowState::Completed);
    }
}

#[test]
fn where_one_is_not_enough_the_next_spare_follows_its_delay() {
    let mut play = hedged("2");
    play.complete("a");
    assert_eq!(play.states("b c"), ["delayed", "delayed"]);
    play.bench.pass(2_000);
    play.complete("b");
    assert_eq!(play.states("c j"), ["cancelled", "waiting"]);
}

#[test]
fn a_spare_that_another_join_needs_starts_when_the_one_before_it_is_dropped() {
    let mut play = Play::new();
    let mut command = play.sketch("first a b j:any other first>j a>j b>j b>other");
    command.sealed = true;
    let (a, b) = (play.ids["a"], play.ids["b"]);
    command.nodes[3].hedge = vec![(a, 0), (b, 2_000)];
    play.run(command).unwrap();
    play.bench.ok(hold(a));
    play.complete("first");
    assert_eq!(play.states("a b"), ["cancelled", "waiting"], "the other join still counts on the spare");
    play.complete("b j other");
    assert_eq!(play.flow_state(), FlowState::Completed);
}

#[test]
fn a_spare_is_not_waited_for_by_the_one_it_is_for() {
    let edges = ["b>a", "b>m m>a"];
    for between in edges {
        let mut play = Play::new();
        let mut command = play.sketch(&format!("a b m j:any a>j b>j {between}"));
        let (a, b) = (play.ids["a"], play.ids["b"]);
        command.nodes[3].hedge = vec![(a, 0), (b, 10)];
        assert_eq!(play.refused(command.clone()), "cycle", "{between}");
        command.nodes[3].hedge = vec![(b, 0), (a, 10)];
        play.run(command).unwrap();
    }
    let mut play = Play::new();
    let mut command = play.sketch("a? b j:any a>j b>j");
    let (a, b) = (play.ids["a"], play.ids["b"]);
    command.nodes[2].hedge = vec![(a, 0), (b, 10)];
    play.run(command).unwrap();
    let (edges, actor) = (vec![NewEdge::new(b, a)], "op".into());
    let later = crate::commands::AddEdges { flow: play.flow, expected_revision: None, edges, actor };
    assert_eq!(play.refused(later), "cycle", "also not later");
}

#[test]
fn a_hedge_names_upstreams_that_are_added_with_it_once() {
    let mut play = Play::new();
    let mut command = play.sketch("a b j:any k:any a>j b>j a>k b>k");
    let (a, b) = (play.ids["a"], play.ids["b"]);
    command.nodes[2].hedge = vec![(a, 0), (b, 10)];
    command.nodes[3].hedge = vec![(a, 0), (b, 10)];
    assert_eq!(play.refused(command.clone()), "invalid");
    let ghost = play.bench.next_id();
    command.nodes[3].hedge = vec![(ghost, 0)];
    assert_eq!(play.refused(command), "invalid");
}
