//! Which results go into the input of a node.

use super::*;
use crate::flow::EdgeKey;

/// The upstreams whose results a node is given.
fn passed(play: &Play, node: &str) -> Vec<String> {
    let named = |id: ExecutionId| play.ids.iter().find(|(_, it)| **it == id).map(|(name, _)| name.clone());
    let edges = play.bench.store.edges.iter();
    let edges =
        edges.filter(|(EdgeKey { downstream, .. }, edge)| *downstream == play.ids[node] && edge.passes);
    edges.filter_map(|(key, _)| named(key.upstream)).collect()
}

fn named(text: &str) -> Play {
    let mut play = Play::new();
    let mut command = CreateFlow { sealed: true, ..play.sketch(text) };
    command.edges.iter_mut().for_each(|edge| edge.field = Some("x".parse().unwrap()));
    play.run(command).unwrap();
    play
}

#[test]
fn a_join_passes_the_results_that_satisfied_it_and_no_later_ones() {
    let mut play = named("a b c all any:any~ two:2~ a>all b>all c>all a>any b>any c>any a>two b>two c>two");
    assert_eq!(play.get("all").node().unwrap().group.named, 3);
    play.complete("b");
    play.complete("c");
    play.complete("a");
    assert_eq!(passed(&play, "all"), ["a", "b", "c"]);
    assert_eq!(passed(&play, "any"), ["b"]);
    assert_eq!(passed(&play, "two"), ["b", "c"]);
}

#[test]
fn a_result_that_was_there_before_the_edge_is_passed() {
    let mut play = Play::new();
    play.create_open("a b?");
    play.complete("a");
    let (_, edges) = play.parts("a>b");
    let (flow, actor) = (play.flow, "ann".into());
    play.run(crate::commands::AddEdges { flow, expected_revision: None, edges, actor }).unwrap();
    assert_eq!(passed(&play, "b"), ["a"]);
}

#[test]
fn what_a_node_was_given_stays_given_while_an_upstream_runs_again() {
    let mut play = named("a b any:any~ a>any b>any");
    play.complete("a any");
    play.bench.ok(replay(play.ids["a"]));
    play.complete("b");
    assert_eq!(passed(&play, "any"), ["a"]);
    play.complete("a");
    assert_eq!(passed(&play, "any"), ["a"]);
}

#[test]
fn a_node_that_waits_again_is_given_what_satisfies_it_then() {
    let mut play = named("a b two:2 a>two b>two");
    play.complete("a");
    play.fail("b");
    assert_eq!(play.state("two"), "skipped");
    play.bench.ok(replay(play.ids["b"]));
    play.complete("b");
    assert_eq!(passed(&play, "two"), ["a", "b"]);
}

#[test]
fn what_ended_while_its_dependent_was_cancelled_is_given_to_it_when_that_runs_again() {
    let mut play = Play::of("a b a>b");
    play.cancel("b");
    play.complete("a");
    play.bench.ok(replay(play.ids["b"]));
    assert_eq!(play.state("b"), "waiting");
    let key = EdgeKey { upstream: play.ids["a"], downstream: play.ids["b"] };
    assert!(play.bench.store.edges[&key].passes);
}
