//! `flowfabric worker`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{ArgAction, Args};
use flowfabric::{Context, Fabric, Outcome, Payload, Stopped, TaskFailure};
use serde_json::json;
use tokio::sync::mpsc;

use super::workers::Manage;
use crate::problem::Problem;
use crate::program::Program;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Run a program for each execution of a kind: input on stdin, result from stdout; or look after workers
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The program runs with `sh -c`, in a process group of its own. It reads the input as JSON from stdin.
What it writes to stdout is the result: JSON if it is that, otherwise a text. Its exit code decides:
  0      completed
  65     failed for good: the input is wrong
  75     not now: the same attempt goes on after --later, nothing is spent
  other  failed; tried again as the policy says, with the end of stderr as the message
In its environment are FLOWFABRIC_EXECUTION, _ATTEMPT, _KIND, _LANE and _NAMESPACE. It gets SIGTERM,
and SIGKILL after --kill-after, when it is cancelled, loses its lease, or the worker stops.

Examples:
  flowfabric worker --kind greet --exec 'jq -c .name'
  flowfabric worker --kind render --exec ./render.sh --lane video --capability gpu --concurrency 2
  flowfabric worker list
  flowfabric worker drain 0197f3a2-6f3e-7c41-9b1d-0242ac120002"
)]
pub struct Worker {
    #[command(subcommand)]
    manage: Option<Manage>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Args, Debug)]
struct Serve {
    /// The kind of work it takes; may be given several times
    #[arg(long, value_name = "NAME", required = true, action = ArgAction::Append)]
    kind: Vec<String>,
    /// The program, for `sh -c`
    #[arg(long, value_name = "CMD", required = true)]
    exec: Option<String>,
    /// A lane it serves; may be given several times [default: default]
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    lane: Vec<String>,
    /// A namespace it serves; may be given several times [default: all]
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    namespace: Vec<String>,
    /// A word that work may require; may be given several times
    #[arg(long, value_name = "WORD", action = ArgAction::Append)]
    capability: Vec<String>,
    /// How many programs run at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = concurrency)]
    concurrency: usize,
    /// The name under which attempts and lists show it
    #[arg(long, value_name = "NAME", default_value = "exec")]
    name: String,
    /// How long programs may take to finish when the worker stops; the rest is given back
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::duration)]
    #[arg(allow_hyphen_values = true)]
    grace: Duration,
    /// How long after SIGTERM a program gets SIGKILL
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse::duration)]
    #[arg(allow_hyphen_values = true)]
    kill_after: Duration,
    /// How long an exit with 75 puts the rest off
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse::duration)]
    #[arg(allow_hyphen_values = true)]
    later: Duration,
}

fn concurrency(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=10_000).contains(count)).ok_or("allowed are 1 to 10000".to_owned())
}

impl Worker {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let serve = self.serve;
        match self.manage {
            Some(manage) => manage.run(settings).await,
            None => {
                session::with(settings, Open::OrCreate, Patience::Long, |fabric| {
                    serve.serve(fabric, settings)
                })
                .await
            }
        }
    }
}

impl Serve {
    async fn serve(self, fabric: Fabric, settings: &Settings) -> Result<(), Problem> {
        let (alive, mut all_gone) = mpsc::channel(1);
        let program = Arc::new(Program {
            // Absent only below a command that looks after workers, which has no need of it.
            command: self.exec.clone().unwrap_or_default(),
            output_bytes_max: settings.limits.result_bytes_max,
            kill_after: self.kill_after,
            later: self.later,
            alive,
        });
        let tally = Arc::new(Tally { json: settings.json, ..Tally::default() });
        let worker = self.worker(&fabric, &program, &tally);
        drop(program);
        eprintln!(
            "worker {} takes {} from {}; ctrl-c ends it",
            self.name,
            self.kind.join(", "),
            crate::session::without_password(settings.server.as_deref().unwrap_or(&settings.store))
        );
        let stopped = worker.run_until(flowfabric::asked_to_end()).await?;
        // Programs whose work was given back have been told to end; nobody may be left behind.
        let _ = tokio::time::timeout(self.kill_after + Duration::from_secs(1), all_gone.recv()).await;
        tally.farewell(&stopped);
        Ok(())
    }

    fn worker(&self, fabric: &Fabric, program: &Arc<Program>, tally: &Arc<Tally>) -> flowfabric::Worker {
        let mut worker = flowfabric::Worker::new(fabric)
            .name(&self.name)
            .build(concat!("flowfabric ", env!("CARGO_PKG_VERSION")))
            .lanes(self.lane.iter().map(String::as_str))
            .concurrency(self.concurrency)
            .grace(self.grace);
        worker = self.namespace.iter().fold(worker, |it, name| it.namespace(name));
        worker = self.capability.iter().fold(worker, |it, word| it.capability(word));
        for kind in &self.kind {
            let (program, tally) = (program.clone(), tally.clone());
            worker = worker.on_raw(kind, move |ctx, input| run(program.clone(), tally.clone(), ctx, input));
        }
        worker
    }
}

async fn run(
    program: Arc<Program>,
    tally: Arc<Tally>,
    ctx: Context,
    input: Payload,
) -> Result<Outcome<Payload>, TaskFailure> {
    let started = Instant::now();
    let result = program.run(ctx.clone(), input).await;
    tally.note(&ctx, &result, started.elapsed());
    result
}

/// What has been done, told line by line and at the end.
#[derive(Debug, Default)]
struct Tally {
    json: bool,
    done: AtomicU64,
    failed: AtomicU64,
    put_off: AtomicU64,
}

impl Tally {
    fn note(&self, ctx: &Context, result: &Result<Outcome<Payload>, TaskFailure>, took: Duration) {
        let (outcome, counter, message) = match result {
            Ok(Outcome::Done(_)) => ("completed", &self.done, ""),
            Ok(Outcome::Delay(_)) => ("delayed", &self.put_off, ""),
            Err(failure) => ("failed", &self.failed, failure.message()),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let (id, kind, attempt) = (ctx.id(), ctx.kind(), ctx.attempt());
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let told = if self.json {
            view::json_line(&json!({
                "execution": id, "kind": kind, "attempt": attempt, "outcome": outcome, "took_ms": ms,
                "message": (!message.is_empty()).then_some(message),
            }))
        } else {
            view::line(
                format!("{id}  {kind}  try {attempt}  {outcome}  {ms}ms  {}", view::cut(message, 80))
                    .trim_end(),
            )
        };
        // Nobody reads along; the work goes on.
        drop(told);
    }

    fn farewell(&self, stopped: &Stopped) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (done, failed, put_off) = (count(&self.done), count(&self.failed), count(&self.put_off));
        let why = if stopped.drained { "drained by an operator" } else { "stopped" };
        let given_back = stopped.given_back;
        eprintln!(
            "worker {why}: {done} completed, {failed} failed, {put_off} put off, {given_back} given back"
        );
    }
}
