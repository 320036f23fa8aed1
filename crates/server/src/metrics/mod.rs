//! What operators watch, in the text that Prometheus reads.
//!
//! Every name is in [`NAMES`] with what it says; labels are lanes, routes, kinds of agenda entries and words of ours, and
//! lanes beyond the first hundred are added up under `other`, so that nobody can make a server remember without end.

mod requests;
mod text;

pub use requests::Requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ff_core::agenda::Subject;
use ff_core::{LaneName, PublicState};
use ff_engine::{Failure, Queue};

use crate::app::App;
use text::Text;

/// How many lanes have figures of their own.
const LANES_MAX: usize = 100;

/// The name under which all other lanes are added up.
const OTHERS: &str = "other";

/// Every metric: its name, its type, and what it says.
pub const NAMES: &[(&str, &str, &str)] = &[
    ("flowfabric_store_up", "gauge", "Whether the store could be read just now"),
    ("flowfabric_executions", "gauge", "Executions by lane and state"),
    ("flowfabric_queue_depth", "gauge", "Executions that wait for a worker, by lane"),
    (
        "flowfabric_queue_age_seconds",
        "gauge",
        "How long the oldest of those next in line has been ready for a worker, by lane",
    ),
    ("flowfabric_queue_paused", "gauge", "Whether executions wait in a lane that is paused"),
    (
        "flowfabric_time_to_start_seconds",
        "histogram",
        "From when the first attempt might have started until it did; delays that were asked for come before",
    ),
    ("flowfabric_run_seconds", "histogram", "From the start of the last attempt to the end"),
    ("flowfabric_commits_total", "counter", "Batches that were committed by this server"),
    ("flowfabric_commands_total", "counter", "Commands that were decided by this server"),
    ("flowfabric_batch_commands", "histogram", "Commands that each commit carried"),
    ("flowfabric_conflicts_total", "counter", "Commits that another server was ahead of"),
    ("flowfabric_unknown_outcomes_total", "counter", "Commits whose answer was lost"),
    ("flowfabric_commands_waiting", "gauge", "Commands that wait to be decided"),
    ("flowfabric_agenda_fired_total", "counter", "Agenda entries that had their effect, by kind"),
    ("flowfabric_agenda_failed_total", "counter", "Agenda entries that failed, by kind"),
    ("flowfabric_agenda_stuck", "gauge", "Agenda entries that fail again and again, by kind"),
    ("flowfabric_agenda_late_seconds_total", "counter", "How late agenda entries were together, by kind"),
    ("flowfabric_store_seconds", "histogram", "How long the store took, by operation"),
    ("flowfabric_workers_waiting", "gauge", "Polls that wait for work in this server"),
    ("flowfabric_sse_clients", "gauge", "Open streams of events and output"),
    ("flowfabric_long_polls", "gauge", "Requests that wait for something"),
    ("flowfabric_http_requests_total", "counter", "Requests by route and status"),
    (
        "flowfabric_http_seconds",
        "histogram",
        "How long requests took, by route; those that wait are left out",
    ),
];

/// All metrics of this server, as text.
///
/// # Errors
/// The engine has stopped.
pub async fn render(app: &Arc<App>) -> Result<String, Failure> {
    let mut text = Text::default();
    // What the server knows of itself is needed most while its store is away.
    let found = lanes(app).await;
    text.value("flowfabric_store_up", &[], if found.is_ok() { 1.0 } else { 0.0 });
    let lanes = found.unwrap_or_else(|failure| {
        tracing::debug!(%failure, "the store's figures cannot be read");
        Lanes::default()
    });
    for (lane, states) in &lanes.states {
        for (state, count) in states {
            text.value("flowfabric_executions", &[("lane", lane), ("state", state.word())], *count as f64);
        }
    }
    for (lane, queue) in &lanes.waiting {
        let lane = [("lane", &**lane)];
        text.value("flowfabric_queue_depth", &lane, queue.depth as f64);
        let age = if queue.depth == 0 { Some(0) } else { queue.age };
        if let Some(age) = age {
            text.value("flowfabric_queue_age_seconds", &lane, age as f64 / 1_000.0);
        }
        text.value("flowfabric_queue_paused", &lane, f64::from(u8::from(queue.paused)));
    }
    // Asked of the engine before its meters are read: they then count everything that anybody was told of.
    let stats = app.engine.stats().await?;
    let meters = app.engine.meters();
    text.histogram("flowfabric_time_to_start_seconds", &[], &meters.time_to_start.read());
    text.histogram("flowfabric_run_seconds", &[], &meters.run.read());
    text.value("flowfabric_commits_total", &[], stats.batches as f64);
    text.value("flowfabric_commands_total", &[], stats.commands as f64);
    text.histogram("flowfabric_batch_commands", &[], &meters.batch_commands.read());
    text.value("flowfabric_conflicts_total", &[], stats.conflicts as f64);
    text.value("flowfabric_unknown_outcomes_total", &[], stats.unknown_outcomes as f64);
    text.value("flowfabric_commands_waiting", &[], stats.queued as f64);
    // Also those that nothing has happened to yet, so that the first time is seen as an increase.
    for kind in Subject::KINDS {
        let (it, labels) = (stats.agenda.get(kind).copied().unwrap_or_default(), [("kind", kind)]);
        text.value("flowfabric_agenda_fired_total", &labels, it.fired as f64);
        text.value("flowfabric_agenda_failed_total", &labels, it.failed as f64);
        text.value("flowfabric_agenda_stuck", &labels, it.stuck as f64);
        text.value("flowfabric_agenda_late_seconds_total", &labels, it.late_ms as f64 / 1_000.0);
    }
    for (operation, histogram) in
        [("load", &meters.store_load), ("commit", &meters.store_commit), ("status", &meters.store_status)]
    {
        text.histogram("flowfabric_store_seconds", &[("operation", operation)], &histogram.read());
    }
    text.value("flowfabric_workers_waiting", &[], stats.waiting_polls as f64);
    text.value("flowfabric_sse_clients", &[], app.live.streams.load(Ordering::Relaxed) as f64);
    text.value("flowfabric_long_polls", &[], app.live.long_polls.load(Ordering::Relaxed) as f64);
    app.requests.write(&mut text);
    Ok(text.finish())
}

/// What is told of each lane, or of all that are not told one by one.
#[derive(Default)]
struct Lanes {
    states: BTreeMap<String, BTreeMap<PublicState, u64>>,
    waiting: BTreeMap<String, Queue>,
}

async fn lanes(app: &Arc<App>) -> Result<Lanes, Failure> {
    let (counts, queues) = (app.engine.counts().await?, app.engine.queues().await?);
    // Lanes with work that has not ended come first, so that many old ones do not push those that matter out.
    let live = |it: &(LaneName, PublicState)| !it.1.is_terminal();
    let all = counts.iter().map(|(key, _)| (key.lane.clone(), key.state));
    let (first, rest): (Vec<_>, Vec<_>) = all.partition(live);
    let mut named = BTreeSet::<LaneName>::new();
    for part in [first, rest] {
        let names: BTreeSet<LaneName> = part.into_iter().map(|(lane, _)| lane).collect();
        let room = LANES_MAX.saturating_sub(named.len());
        let more: Vec<LaneName> = names.difference(&named).take(room).cloned().collect();
        named.extend(more);
    }
    let name = |lane: &LaneName| if named.contains(lane) { lane.as_str() } else { OTHERS }.to_owned();
    let mut lanes = Lanes::default();
    for (key, count) in counts {
        let name = name(&key.lane);
        lanes.waiting.entry(name.clone()).or_default();
        *lanes.states.entry(name).or_default().entry(key.state).or_default() += count;
    }
    for (lane, queue) in queues {
        let name = name(&lane);
        let all = lanes.waiting.entry(name).or_default();
        all.depth += queue.depth;
        all.age = all.age.max(queue.age);
        all.paused |= queue.paused && named.contains(&lane);
    }
    Ok(lanes)
}
