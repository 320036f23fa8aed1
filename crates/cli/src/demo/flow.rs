//! The part that is a flow: a fan-out, a retry, and a quorum that cancels whom it does not need.

use std::time::Duration;

use flowfabric::{
    AttemptOutcome, Backoff, Context, FlowRun, FlowState, Graph, Jitter, PublicState, Reason, Retryable,
    Start, TaskFailure, Worker,
};
use serde_json::{Value, json};

use super::Stage;
use super::parts::{Part, TAG, Verdict, pause};
use crate::flow_graph;
use crate::problem::Problem;

const LANE: &str = "mirrors";
/// How many mirrors are asked, and how many must agree.
const MIRRORS: u32 = 5;
const QUORUM: u32 = 3;
/// More members than it has.
const ALL: usize = 100;

pub async fn flow(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Flow;
    let flow = stage.fabric.flow("release").tag(TAG, part.word());
    let on = |node: flowfabric::Node| node.lane(LANE).tag(TAG, part.word());
    let fetch = on(flow.node("fetch", &"release.tar"));
    let backoff = || Backoff { initial_ms: 400, factor: 1.0, max_ms: 400, jitter: Jitter::None };
    let mirror =
        |n: u32| on(flow.node("mirror", &n)).name(&format!("mirror-{n}")).after(&fetch).backoff(backoff());
    let mirrors: Vec<_> = (1..=MIRRORS).map(mirror).collect();
    let agree = on(flow.node("agree", &())).quorum(QUORUM, &mirrors);
    on(flow.node("publish", &())).after(&agree);
    on(flow.node("alarm", &())).on_failure(&agree);
    let run = flow.submit().await?;
    stage.employ(crew(stage));
    stage.live.say(&format!("a flow: fetch, then {MIRRORS} mirrors at once, of which {QUORUM} must agree"));
    let graph = watched(stage, &run).await?;
    let result: String = run.result().await?;
    stage
        .live
        .say(&format!("{QUORUM} mirrors agreed, one at its second try; the rest was cancelled at once"));

    let names = |wanted: &dyn Fn(&flowfabric::Execution) -> bool| -> Vec<String> {
        let found = graph.members.iter().filter(|it| wanted(it));
        found.filter_map(|it| it.node_name()).map(|name| name.to_string()).collect()
    };
    let losers = names(&|it| it.reason() == Reason::SiblingQuorumSatisfied);
    let retried = names(&|it| it.attempt_number() > 1 && it.public_state() == PublicState::Completed);
    let skipped = names(&|it| it.public_state() == PublicState::Skipped);
    let failed_once = run.node(&mirrors[1]).attempts().await?;
    let failed_once = failed_once[0].end.as_ref().is_some_and(|end| end.outcome == AttemptOutcome::Failed);
    let ok = graph.flow.state() == FlowState::Completed
        && (losers.as_slice(), retried.as_slice())
            == (&["mirror-4", "mirror-5"].map(String::from), &["mirror-2".to_owned()])
        && skipped == ["alarm"]
        && failed_once
        && result == "published";
    let detail =
        format!("{QUORUM} of {MIRRORS} agreed and the others were cancelled; one agreed at its second try");
    let states =
        graph.members.iter().filter_map(|it| Some((it.node_name()?.to_string(), json!(it.public_state()))));
    let facts = json!({
        "id": run.id(),
        "state": graph.flow.state(),
        "quorum": { "k": QUORUM, "of": MIRRORS },
        "cancelled_losers": losers,
        "retried": retried,
        "skipped": skipped,
        "result": result,
        "nodes": states.collect::<serde_json::Map<String, Value>>(),
    });
    let drawing = flow_graph::draw(&graph, crate::parse::now());
    Ok(Verdict { facts: Some(facts), drawing, ..Verdict::new(part, ok, detail) })
}

/// Draws it whenever something happens, until it has ended.
async fn watched(stage: &Stage, run: &FlowRun) -> Result<Graph, Problem> {
    let mut events = run.events(Start::Now).await?;
    loop {
        let graph = run.graph(ALL).await?;
        stage.live.draw(Part::Flow, &flow_graph::line(&graph));
        if graph.flow.live.end.is_some() {
            return Ok(graph);
        }
        events.next().await?;
    }
}

fn crew(stage: &Stage) -> Worker {
    Worker::new(&stage.fabric)
        .name("mirrors")
        .lane(LANE)
        .concurrency(8)
        .on("fetch", |_: Context, file: String| async move {
            pause(400).await;
            Ok(file)
        })
        .on("mirror", mirror)
        .on("agree", |_: Context, (): ()| async {
            pause(400).await;
            Ok("agreed")
        })
        .on("publish", |_: Context, (): ()| async {
            pause(400).await;
            Ok("published")
        })
        .on("alarm", |_: Context, (): ()| async { Ok("somebody was called") })
}

/// The second fails at first, and the last two never come to an end.
async fn mirror(ctx: Context, n: u32) -> Result<u32, TaskFailure> {
    match (n, ctx.attempt()) {
        (2, 1) => Err(Retryable("connection reset").code("reset")),
        (1..=QUORUM, _) => {
            tokio::time::sleep(Duration::from_millis(300 * u64::from(n))).await;
            Ok(n)
        }
        _ => std::future::pending().await,
    }
}
