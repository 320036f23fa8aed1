//! Cascades of any size in bounded commits.

use super::*;
use crate::commands::AddNodes;
use crate::flow::CancelPolicy;

/// Adds nodes and edges in as many calls as it takes.
fn grow(play: &mut Play, nodes: Vec<NewNode>, edges: Vec<NewEdge>) {
    let (mut nodes, mut edges) = (nodes.into_iter().peekable(), edges.into_iter().peekable());
    while nodes.peek().is_some() || edges.peek().is_some() {
        let part: Vec<NewNode> = nodes.by_ref().take(500).collect();
        let last = part.last().map(|node| node.create.id);
        let mut known = Vec::new();
        while let Some(edge) = edges.next_if(|edge| last.is_none_or(|last| edge.downstream <= last)) {
            known.push(edge);
        }
        let actor = "op".into();
        play.run(AddNodes { flow: play.flow, expected_revision: None, nodes: part, edges: known, actor })
            .unwrap();
    }
}

fn nodes(play: &mut Play, count: usize) -> Vec<NewNode> {
    (0..count).map(|n| play.node(&format!("n{n}"))).collect()
}

/// The records that the largest commit since the given one has changed.
fn largest_commit(play: &Play, since: usize) -> usize {
    play.bench.store.log[since..].iter().map(Vec::len).max().unwrap_or(0)
}

fn light() -> Play {
    let mut play = Play::new();
    play.bench.checks = Checks::Last;
    play
}

const BOUND: usize = 6_000;

#[test]
fn a_chain_of_skips_of_any_length_goes_through_in_bounded_commits() {
    let count = 20_000;
    let mut play = light();
    play.create_open("");
    let nodes = nodes(&mut play, count);
    let ids: Vec<_> = nodes.iter().map(|node| node.create.id).collect();
    let edges = ids.windows(2).map(|pair| NewEdge::new(pair[0], pair[1])).collect();
    grow(&mut play, nodes, edges);
    play.bench.ok(seal(play.flow));
    let commits = play.bench.store.log.len();
    play.fail("n0");
    assert_eq!(play.state(&format!("n{}", count - 1)), "waiting_children", "the rest is the agenda's");
    play.bench.pass(0);
    assert_eq!(play.record().live.summary.get(crate::PublicState::Skipped), count as u64 - 1);
    assert_eq!(play.flow_state(), FlowState::Failed);
    assert!(largest_commit(&play, commits) < BOUND);
}

#[test]
fn a_fan_out_and_a_fan_in_of_any_size_go_through_in_bounded_commits() {
    let count = 10_000;
    let mut play = light();
    play.create_open("");
    let nodes = nodes(&mut play, count + 2);
    let ids: Vec<_> = nodes.iter().map(|node| node.create.id).collect();
    let (first, last) = (ids[0], ids[count + 1]);
    let middle = &ids[1..=count];
    let mut edges: Vec<NewEdge> = middle.iter().map(|id| NewEdge::new(first, *id)).collect();
    let join = NewNode { open: true, ..nodes[count + 1].clone() };
    let mut nodes = nodes;
    nodes[count + 1] = join;
    grow(&mut play, nodes, std::mem::take(&mut edges));
    for part in middle.chunks(500) {
        let edges = part.iter().map(|id| NewEdge::new(*id, last)).collect();
        let actor = "op".into();
        play.run(crate::commands::AddEdges { flow: play.flow, expected_revision: None, edges, actor })
            .unwrap();
    }
    play.bench.ok(seal(play.flow));
    play.bench.pass(0);
    let commits = play.bench.store.log.len();
    play.complete("n0");
    play.bench.pass(0);
    play.claim_all();
    assert_eq!(play.record().live.summary.get(crate::PublicState::Active), count as u64);
    let names: Vec<String> = (1..=count).map(|n| format!("n{n}")).collect();
    play.complete(&names.join(" "));
    play.complete(&format!("n{}", count + 1));
    assert_eq!(play.flow_state(), FlowState::Completed);
    assert!(largest_commit(&play, commits) < BOUND);
}

#[test]
fn more_losers_than_fit_a_commit_follow_and_none_of_them_starts_meanwhile() {
    let count = 5_000;
    let mut play = light();
    play.create_open("");
    let mut nodes = nodes(&mut play, count + 1);
    let ids: Vec<_> = nodes.iter().map(|node| node.create.id).collect();
    nodes[count].open = true;
    nodes[count].join = join("any");
    grow(&mut play, nodes, Vec::new());
    for part in ids[..count].chunks(500) {
        let edges = part.iter().map(|id| NewEdge::new(*id, ids[count])).collect();
        let actor = "op".into();
        play.run(crate::commands::AddEdges { flow: play.flow, expected_revision: None, edges, actor })
            .unwrap();
    }
    play.bench.ok(seal(play.flow));
    play.bench.pass(0);
    let fence = play.bench.claim();
    let commits = play.bench.store.log.len();
    play.bench.ok(complete(fence));
    let cancelled = |play: &Play| play.record().live.summary.get(crate::PublicState::Cancelled);
    assert!((1_000..=1_200).contains(&cancelled(&play)), "{}", cancelled(&play));
    let claimed = play.bench.claim_with(play.bench.poll(), 10);
    assert!(claimed.iter().all(|fence| fence.execution == ids[count]), "only the join starts");
    play.bench.pass(0);
    assert_eq!(cancelled(&play), count as u64 - 1);
    assert!(largest_commit(&play, commits) < BOUND);
}

#[test]
fn a_thousand_losers_end_in_the_commit_that_satisfies_their_join() {
    let mut play = light();
    let mut text = String::from("join:any ");
    (0..999).for_each(|n| text += &format!("u{n} "));
    (0..999).for_each(|n| text += &format!("u{n}>join "));
    play.create(&text);
    play.claim_all();
    let commits = play.bench.store.log.len();
    play.complete("u500");
    assert_eq!(play.bench.store.log.len(), commits + 1);
    assert_eq!(play.record().live.summary.get(crate::PublicState::Cancelled), 998);
    assert_eq!(play.record().live.passing, 0);
}

#[test]
fn edges_added_one_by_one_in_the_worst_order_stay_cheap() {
    let count = 3_000;
    let mut play = light();
    play.create_open("");
    let mut nodes = nodes(&mut play, count);
    nodes.iter_mut().for_each(|node| node.open = true);
    let ids: Vec<_> = nodes.iter().map(|node| node.create.id).collect();
    grow(&mut play, nodes, Vec::new());
    play.bench.batch_size = 0;
    let mut touched = 0;
    for pair in ids.windows(2).rev() {
        let edges = vec![NewEdge::new(pair[1], pair[0])];
        let actor = "op".into();
        play.run(crate::commands::AddEdges { flow: play.flow, expected_revision: None, edges, actor })
            .unwrap();
        touched += 1;
        if touched % 100 == 0 {
            play.bench.commit();
        }
    }
    play.bench.commit();
    let edge = vec![NewEdge::new(ids[0], ids[count - 1])];
    let actor = "op".into();
    let command = crate::commands::AddEdges { flow: play.flow, expected_revision: None, edges: edge, actor };
    assert_eq!(play.refused(command), "cycle");
    let levels = play.bench.store.executions.values().map(|it| it.node().unwrap().level).max().unwrap();
    assert!(
        (levels as usize) < count / 10,
        "levels grow with the root of the edges, not with the edges: {levels}"
    );
    play.bench.ok(cancel_flow(play.flow, CancelPolicy::CancelAll));
}

/// How often something is read for what follows, by a server that has nothing in memory, and in how many commits.
fn reads_after_restart(play: &mut Play, step: impl FnOnce(&mut Play)) -> (usize, usize) {
    play.bench.reopen();
    let (reads, commits) = (play.bench.reads, play.bench.store.log.len());
    step(play);
    play.bench.pass(0);
    (play.bench.reads - reads, play.bench.store.log.len() - commits)
}

#[test]
fn a_server_without_anything_in_memory_reads_what_it_visits_together() {
    let mut play = light();
    let mut text = String::from("join:any ");
    (0..900).for_each(|n| text += &format!("u{n} u{n}>join "));
    play.create(&text);
    let fence = play.fence("u500");
    let (reads, _) = reads_after_restart(&mut play, |play| {
        play.bench.ok(complete(fence));
        assert_eq!(play.record().live.summary.get(crate::PublicState::Cancelled), 899, "in one commit");
    });
    assert!(reads < 12, "{reads} reads");

    let mut play = light();
    play.create(&text);
    let cancel = cancel_flow(play.flow, CancelPolicy::CancelAll);
    let (reads, commits) = reads_after_restart(&mut play, |play| drop(play.bench.ok(cancel)));
    assert_eq!(play.flow_state(), FlowState::Cancelled);
    assert!(reads < 30 && commits < 6, "{reads} reads, {commits} commits");
}

#[test]
fn a_chain_that_is_not_in_memory_is_read_in_long_parts() {
    let mut play = light();
    let mut text = String::from("n0 ");
    (1..900).for_each(|n| text += &format!("n{n} n{}>n{n} ", n - 1));
    play.create(&text);
    let fence = play.fence("n0");
    let (reads, commits) = reads_after_restart(&mut play, |play| drop(play.bench.ok(fail_fatally(fence))));
    assert_eq!(play.record().live.summary.get(crate::PublicState::Skipped), 899);
    assert!(reads < 30 && commits < 12, "{reads} reads, {commits} commits");
}

#[test]
fn a_chain_written_down_backwards_is_read_in_many_short_commits() {
    let mut play = light();
    let mut text = String::from("n499 ");
    (0..499).rev().for_each(|n| text += &format!("n{n} n{n}>n{} ", n + 1));
    play.create(&text);
    let fence = play.fence("n0");
    let (reads, commits) = reads_after_restart(&mut play, |play| drop(play.bench.ok(fail_fatally(fence))));
    assert_eq!(play.record().live.summary.get(crate::PublicState::Skipped), 499);
    assert!(commits > 10 && reads < 50 * commits, "{reads} reads, {commits} commits");
}
