//! What happens in the demonstration, part by part. Each part ends with a check of what the store says.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use flowfabric::{
    Attempt, AttemptOutcome, Backoff, Context, EventFilter, Events, ExecutionId, Fact, Fatal, Jitter,
    PublicState, Reason, Retryable, Run, Start, Submission, TaskFailure, Worker,
};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::approval::{approval, refund};
use super::flow::flow;
use super::{Stage, doomed};
use crate::problem::Problem;

/// The tag that says which part an execution belongs to.
pub const TAG: &str = "demo";
const URGENT: u64 = 3;
const DEADLINE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Work,
    Retries,
    BadInput,
    WorkerLoss,
    Priorities,
    Deadline,
    Cancel,
    Routing,
    Flow,
    Approval,
}

impl Part {
    pub const ALL: [Part; 10] = [
        Part::Work,
        Part::Retries,
        Part::BadInput,
        Part::WorkerLoss,
        Part::Priorities,
        Part::Deadline,
        Part::Cancel,
        Part::Routing,
        Part::Flow,
        Part::Approval,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Part::Work => "work",
            Part::Retries => "retries",
            Part::BadInput => "bad_input",
            Part::WorkerLoss => "worker_loss",
            Part::Priorities => "priorities",
            Part::Deadline => "deadline",
            Part::Cancel => "cancel",
            Part::Routing => "routing",
            Part::Flow => "flow",
            Part::Approval => "approval",
        }
    }

    pub fn from_word(word: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.word() == word)
    }

    pub fn title(self) -> &'static str {
        match self {
            Part::Work => "normal work",
            Part::Retries => "retries",
            Part::BadInput => "bad input",
            Part::WorkerLoss => "worker loss",
            Part::Priorities => "priorities",
            Part::Deadline => "deadline",
            Part::Cancel => "cancel",
            Part::Routing => "routing",
            Part::Flow => "flow",
            Part::Approval => "approval",
        }
    }

    pub fn promise(self) -> &'static str {
        match self {
            Part::Work => "three workers share it",
            Part::Retries => "each fails twice, then succeeds",
            Part::BadInput => "fails for good at the first try",
            Part::WorkerLoss => "a process is killed, another goes on after its step",
            Part::Priorities => "urgent ones overtake",
            Part::Deadline => "nobody takes them in time",
            Part::Cancel => "one waits, one runs",
            Part::Routing => "only for a worker that has gpu",
            Part::Flow => "fan-out, quorum, losers",
            Part::Approval => "waits for a signed yes, without a worker",
        }
    }

    /// How many executions it has.
    pub fn count(self) -> u64 {
        match self {
            Part::Work => 240,
            Part::Retries => 6,
            Part::BadInput | Part::Approval => 1,
            Part::WorkerLoss => 4,
            Part::Priorities => 12 + URGENT,
            Part::Deadline | Part::Cancel => 2,
            Part::Routing => 3,
            Part::Flow => 9,
        }
    }

    /// How its executions must end, and how many of them so.
    pub fn ends_as(self) -> Vec<(PublicState, u64)> {
        let state = match self {
            Part::BadInput => PublicState::Failed,
            Part::Deadline => PublicState::Expired,
            Part::Cancel => PublicState::Cancelled,
            // Two mirrors are not needed, and nobody has to be called.
            Part::Flow => {
                return vec![
                    (PublicState::Completed, 6),
                    (PublicState::Cancelled, 2),
                    (PublicState::Skipped, 1),
                ];
            }
            _ => PublicState::Completed,
        };
        vec![(state, self.count())]
    }
}

/// What became of a part.
#[derive(Debug)]
pub struct Verdict {
    pub part: Part,
    pub ok: bool,
    pub detail: String,
    /// More about it, for programs.
    pub facts: Option<Value>,
    /// It as a picture, line by line.
    pub drawing: Vec<String>,
}

impl Verdict {
    pub fn new(part: Part, ok: bool, detail: String) -> Verdict {
        Verdict { part, ok, detail, facts: None, drawing: Vec::new() }
    }
}

/// Plays all parts at the same time.
pub async fn all(stage: &Stage) -> Result<Vec<Verdict>, Problem> {
    for n in 1..=3 {
        stage.employ(crew(stage, &format!("worker-{n}")));
    }
    let played = tokio::try_join!(
        work(stage),
        retries(stage),
        bad_input(stage),
        worker_loss(stage),
        priorities(stage),
        deadline(stage),
        cancel(stage),
        routing(stage),
        flow(stage),
        approval(stage),
    )?;
    let (work, retries, bad_input, loss, priorities, deadline, cancel, routing, flow, approval) = played;
    Ok(vec![work, retries, bad_input, loss, priorities, deadline, cancel, routing, flow, approval])
}

// ---- workers ---------------------------------------------------------------------------------------------

/// A worker of the lane `default`.
fn crew(stage: &Stage, name: &str) -> Worker {
    Worker::new(&stage.fabric)
        .name(name)
        .concurrency(4)
        .on("resize", |_: Context, n: u64| async move {
            pause(100 + n * 37 % 100).await;
            Ok(n)
        })
        .on("flaky", |ctx: Context, _: Value| async move {
            match ctx.attempt() {
                attempt @ 1..=2 => Err(Retryable(format!("try {attempt}: connection reset")).code("reset")),
                _ => Ok("at last"),
            }
        })
        .on("parse", |_: Context, text: String| async move {
            text.parse::<u64>().map_err(|error| Fatal(error).code("bad_input"))
        })
        .on("nap", |ctx: Context, _: Value| async move {
            ctx.cancelled().await;
            Err::<(), _>(Retryable("stopped because it was asked to").into())
        })
        .on("render", render)
        .on("refund", refund)
}

async fn render(_: Context, _: Value) -> Result<&'static str, TaskFailure> {
    pause(200).await;
    Ok("rendered")
}

/// Stands for work that takes its time.
pub async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

// ---- what parts have in common ---------------------------------------------------------------------------

pub(super) fn task(part: Part, kind: &str, input: impl serde::Serialize) -> Submission {
    Submission::new(kind, &input).tag(TAG, part.word())
}

pub(super) async fn submit(stage: &Stage, tasks: Vec<Submission>) -> Result<Vec<Run>, Problem> {
    let runs = stage.fabric.submit_many(tasks).await;
    Ok(runs.into_iter().collect::<Result<Vec<Run>, _>>()?)
}

/// Waits until all have ended, checks how, and reads their attempts.
pub(super) async fn ended(part: Part, runs: &[Run]) -> Result<(bool, Vec<Vec<Attempt>>), Problem> {
    let mut as_expected = runs.len() as u64 == part.count();
    let mut attempts = Vec::with_capacity(runs.len());
    for run in runs {
        let ended = run.wait().await?;
        let state = ended.execution.public_state();
        as_expected &= part.ends_as().iter().any(|(it, _)| *it == state);
        attempts.push(run.attempts().await?);
    }
    Ok((as_expected, attempts))
}

/// The executions that start, in that order, until there are so many.
async fn starts(events: &mut Events, count: u64) -> Result<Vec<ExecutionId>, flowfabric::Error> {
    let mut order = Vec::new();
    while (order.len() as u64) < count {
        let event = events.next().await?.event;
        if let (Fact::Started { .. }, Some(id)) = (event.fact, event.execution) {
            order.push(id);
        }
    }
    Ok(order)
}

// ---- the parts -------------------------------------------------------------------------------------------

async fn work(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Work;
    let mut runs = submit(stage, (1..part.count()).map(|n| task(part, "resize", n)).collect()).await?;
    // Twice the same key is one execution.
    let once = || task(part, "resize", 0).idempotency_key("picture-0");
    let twice = [submit(stage, vec![once()]).await?, submit(stage, vec![once()]).await?].concat();
    let same = twice[0].id() == twice[1].id() && twice[1].existing();
    runs.push(twice[0].clone());
    stage.live.say(&format!("{} pieces of work submitted for three workers", runs.len()));
    let (good, attempts) = ended(part, &runs).await?;
    let workers: BTreeSet<&str> = attempts.iter().flatten().map(|it| it.worker.as_str()).collect();
    let detail =
        format!("by {} workers; one was submitted twice with the same key and ran once", workers.len());
    Ok(Verdict::new(part, good && same && workers.len() == 3, detail))
}

async fn retries(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Retries;
    let backoff = || Backoff { initial_ms: 300, factor: 2.0, max_ms: 5_000, jitter: Jitter::None };
    let tasks = (0..part.count())
        .map(|n| task(part, "flaky", n).priority(10).attempts(5).backoff(backoff()))
        .collect();
    let runs = submit(stage, tasks).await?;
    let (good, attempts) = ended(part, &runs).await?;
    let thrice = attempts.iter().all(|it| it.len() == 3);
    // The pauses are the backoff: 300 ms after the first failure, 600 ms after the second.
    let gap = |pair: &[Attempt]| pair[1].started_at - pair[0].end.as_ref().map_or(0, |end| end.at);
    let paused =
        attempts.iter().all(|it| it.windows(2).map(gap).zip([300, 600]).all(|(gap, min)| gap >= min));
    stage.live.say("flaky work succeeded at its third try, after pauses of 0.3 s and 0.6 s");
    let detail = "3 tries each, with a backoff of 300 ms and 600 ms".to_owned();
    Ok(Verdict::new(part, good && thrice && paused, detail))
}

async fn bad_input(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::BadInput;
    let runs = submit(stage, vec![task(part, "parse", "seven").priority(10).attempts(5)]).await?;
    let (good, attempts) = ended(part, &runs).await?;
    let execution = runs[0].get().await?;
    let error = execution.end().and_then(|end| end.error.as_ref()).map_or("", |error| &error.message);
    let ok = good && attempts[0].len() == 1 && execution.reason() == Reason::FatalError;
    let detail = format!("1 try of 5, because a fatal error is not tried again: {error}");
    Ok(Verdict::new(part, ok, detail))
}

async fn worker_loss(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::WorkerLoss;
    let here = EventFilter { tag: Some((TAG.to_owned(), part.word().to_owned())), ..EventFilter::default() };
    let mut events = stage.fabric.events(here, Start::Now).await?;
    let backoff = || Backoff { initial_ms: 200, factor: 1.0, max_ms: 200, jitter: Jitter::None };
    let transfer = |n| {
        // So long a lease that only the proof of death can explain a quick recovery.
        let lease = Duration::from_secs(600);
        task(part, doomed::KIND, n).lane(doomed::LANE).lease(lease).backoff(backoff())
    };
    let runs = submit(stage, (0..part.count()).map(transfer).collect()).await?;
    let mut process = spawn_doomed(stage)?;
    starts(&mut events, part.count()).await?;
    // Each has debited an account, which must not happen twice.
    for run in &runs {
        while run.steps().await?.is_empty() {
            pause(10).await;
        }
    }
    let pid = process.id().unwrap_or(0);
    process.kill().await?;
    let killed = Instant::now();
    stage.live.say(&format!("process {pid} was killed (SIGKILL) while it held {} transfers", runs.len()));
    stage.employ(
        Worker::new(&stage.fabric).name("rescuer").lane(doomed::LANE).on(doomed::KIND, transfer_done),
    );
    starts(&mut events, part.count()).await?;
    let recovered = killed.elapsed();
    stage
        .live
        .say(&format!("its work was recovered {:.1} s later by another worker", recovered.as_secs_f64()));
    let (good, attempts) = ended(part, &runs).await?;
    let handed_over = attempts.iter().all(|it| {
        let lost =
            |first: &Attempt| first.end.as_ref().is_some_and(|end| end.outcome == AttemptOutcome::LeaseLost);
        it.len() == 2
            && it[0].worker.as_str() == doomed::NAME
            && lost(&it[0])
            && it[1].worker.as_str() == "rescuer"
    });
    let mut debited_once = true;
    for run in &runs {
        // What the step came to is what the killed process has recorded.
        debited_once &= run.result::<u32>().await? == pid;
    }
    stage.live.say("the step that the killed process had done was not run again");
    let detail = format!(
        "process {pid} was killed after a step; all were recovered within {:.1} s, and no step ran twice",
        recovered.as_secs_f64()
    );
    Ok(Verdict::new(part, good && handed_over && debited_once, detail))
}

async fn transfer_done(ctx: Context, _: Value) -> Result<u32, TaskFailure> {
    let debited_by = doomed::debit(&ctx).await?;
    pause(300).await;
    Ok(debited_by)
}

fn spawn_doomed(stage: &Stage) -> Result<Child, Problem> {
    let program = std::env::current_exe()?;
    let child = Command::new(program)
        .arg("__demo-worker")
        // Not an argument: everybody on the machine can read those, and an address may hold a password.
        .env("FLOWFABRIC_STORE", &stage.url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    child.map_err(|error| Problem::error(format!("cannot start a second process: {error}")))
}

async fn priorities(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Priorities;
    let rush = stage.fabric.lane("rush");
    rush.pause().actor("demo").cause("until everything is in line").await?;
    let here = EventFilter { tag: Some((TAG.to_owned(), part.word().to_owned())), ..EventFilter::default() };
    let mut events = stage.fabric.events(here, Start::Now).await?;
    let order = |n| task(part, "pack", n).lane("rush");
    let mut runs = submit(stage, (URGENT..part.count()).map(order).collect()).await?;
    let urgent = submit(stage, (0..URGENT).map(|n| order(n).priority(50)).collect()).await?;
    let first: BTreeSet<ExecutionId> = urgent.iter().map(Run::id).collect();
    runs.extend(urgent);
    let pack = |_: Context, n: u64| async move {
        pause(100).await;
        Ok(n)
    };
    stage.employ(Worker::new(&stage.fabric).name("packer").lane("rush").concurrency(1).on("pack", pack));
    rush.resume().actor("demo").cause("go").await?;
    let order = starts(&mut events, part.count()).await?;
    let overtook = order.iter().take(first.len()).all(|id| first.contains(id));
    stage.live.say(&format!("{URGENT} urgent orders, submitted last, were taken first"));
    let (good, _) = ended(part, &runs).await?;
    let detail = format!("{URGENT} urgent ones were submitted last and started first");
    Ok(Verdict::new(part, good && overtook, detail))
}

async fn deadline(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Deadline;
    let report = |n| task(part, "report", n).lane("night").deadline(DEADLINE);
    let runs = submit(stage, (0..part.count()).map(report).collect()).await?;
    let (good, attempts) = ended(part, &runs).await?;
    let mut passed = true;
    for run in &runs {
        passed &= run.get().await?.reason() == Reason::DeadlinePassed;
    }
    stage.live.say(&format!("work that nobody took expired at its deadline of {} s", DEADLINE.as_secs()));
    let detail = format!("their deadline of {} s passed before a worker took them", DEADLINE.as_secs());
    Ok(Verdict::new(part, good && passed && attempts.iter().all(Vec::is_empty), detail))
}

async fn cancel(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Cancel;
    let waits = task(part, "nap", 1).delay(Duration::from_secs(3_600));
    let runs = submit(stage, vec![waits, task(part, "nap", 2).priority(10)]).await?;
    let mut watch = runs[1].watch().await?;
    while let Some(execution) = watch.next().await? {
        if execution.public_state() == PublicState::Active {
            break;
        }
    }
    for run in &runs {
        run.cancel_within(Duration::from_secs(10)).actor("demo").cause("not needed any more").await?;
    }
    let (good, attempts) = ended(part, &runs).await?;
    stage.live.say("a running task was cancelled; its handler noticed and stopped");
    let handler_stopped = attempts[1]
        .iter()
        .any(|it| it.end.as_ref().is_some_and(|end| end.outcome == AttemptOutcome::Cancelled));
    let detail = "one before it started, one while it ran".to_owned();
    Ok(Verdict::new(part, good && handler_stopped && attempts[0].is_empty(), detail))
}

async fn routing(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Routing;
    let runs =
        submit(stage, (0..part.count()).map(|n| task(part, "render", n).capability("gpu")).collect()).await?;
    let why = runs[0].explain().await?;
    let gate = why.gates.iter().find(|gate| gate.gate == "workers").map_or("", |gate| &gate.detail);
    stage.live.say(&format!("work that needs gpu waits: {gate}"));
    pause(1_500).await;
    let untouched = runs[0].get().await?.attempt_number() == 0;
    stage.employ(Worker::new(&stage.fabric).name("gpu-1").capability("gpu").on("render", render));
    let (good, attempts) = ended(part, &runs).await?;
    let routed = attempts.iter().flatten().all(|it| it.worker.as_str() == "gpu-1");
    stage.live.say("a worker that has gpu came and took it");
    let detail = "waited until a worker with the capability came".to_owned();
    Ok(Verdict::new(part, good && routed && untouched && why.reason == "no_capable_worker", detail))
}
