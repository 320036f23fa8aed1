//! `flowfabric submit`
//!
//! | to read about | open |
//! |---|---|
//! | what is executed, where and how | `mod.rs` |
//! | executions in a file | `jobs.rs` |
//! | sending them | `batches.rs` |

mod batches;
mod jobs;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use flowfabric::{Backoff, ExecutionId, Fabric, Jitter, Ms, Policy, Submission};
use serde_json::json;

use super::payload::{Bounds, check_json};
use super::result::wait_for;
use super::watch::{late, sleep};
use crate::parse::When;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// How many submissions are made ready at once.
const CHUNK: u64 = 10_000;

/// Submit work, one execution or a file of them; prints the id of each
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric submit greet --input '{\"name\":\"Ada\"}'
  flowfabric submit charge --input-file order.json --lane billing --key order-7 --attempts 5
  echo '[1,2,3]' | flowfabric submit sum - --wait --timeout 30s
  flowfabric submit report --delay 5m --deadline 2h --tag team.name=sales
  flowfabric submit sync --policy '{\"max_elapsed_ms\":\"1h\",\"non_retryable\":[\"bad_input\"]}'
  flowfabric submit load --count 1000
  flowfabric submit --file jobs.jsonl
  jq -c '.orders[] | {kind: \"charge\", input: .}' day.json | flowfabric submit --file -

In a file each line is a JSON object with the fields of POST /v1/executions: kind, and as needed
input, namespace, lane, priority, delay_ms, start_at, deadline_ms, deadline_at, capabilities, tags,
idempotency_key, policy and id; durations may be written as \"5m\". A JSON list of such objects will
do, too. A file is checked to its end before anything is submitted. With --json there is a line for
each, with the line on which it stands, and its id or its error.")]
pub struct Submit {
    /// The name of the task
    #[arg(value_name = "KIND", required_unless_present = "file")]
    kind: Option<String>,
    /// Submit all executions in a file, which may differ; - is the standard input
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["kind", "Input", "Place", "Times", "Tries", "count", "wait", "timeout"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    policy: Tries,
    /// Submit so many, all with the same input
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    #[arg(conflicts_with_all = ["key", "wait"])]
    count: Option<u64>,
    /// Wait for the end and print the result; exit code 6 if it does not complete
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Input")]
struct Input {
    /// The input as JSON [default: null]
    #[arg(long, value_name = "JSON", conflicts_with_all = ["input_file", "stdin"], allow_hyphen_values = true)]
    input: Option<String>,
    /// Read the input from a file; - is the standard input
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    input_file: Option<PathBuf>,
    /// Read the input from the standard input
    #[arg(value_name = "-", value_parser = ["-"])]
    stdin: Option<String>,
    /// What the input is, if it is not JSON
    #[arg(long, value_name = "TYPE", default_value = ff_core::payload::JSON)]
    content_type: String,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Where it goes")]
struct Place {
    /// The queue: 1 to 64 printable characters
    #[arg(long, value_name = "NAME", default_value = "default")]
    lane: String,
    /// Whose work it is
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// From -100 to 100; higher is sooner
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,
    /// A word that a worker must have to run it; may be given several times
    #[arg(long, value_name = "WORD", action = ArgAction::Append)]
    capability: Vec<String>,
    /// A word to find it by; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::tag, action = ArgAction::Append)]
    tag: Vec<(String, String)>,
    /// The same key within a day gives the first execution instead of a second one
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The id it gets, a UUID; asked again with the same id and content, it is not made a second time
    #[arg(long, value_name = "ID", conflicts_with = "count")]
    id: Option<ExecutionId>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Times")]
struct Times {
    /// Not before so long from now
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// Not before a time: RFC 3339, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    #[arg(conflicts_with = "delay")]
    run_at: Option<Ms>,
    /// It ends expired if it has not ended by then: so long from now, or a time
    #[arg(long, value_name = "WHEN", value_parser = parse::when, allow_hyphen_values = true)]
    deadline: Option<When>,
    /// How long one attempt may run
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    attempt_timeout: Option<Duration>,
    /// How long it may wait for a worker
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    schedule_to_start: Option<Duration>,
    /// How long a worker that is not heard of keeps it [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    lease: Option<Duration>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Retries")]
struct Tries {
    /// How often it is tried at most; 1 means never again [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    attempts: Option<i64>,
    /// The pause after the first failure [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    backoff: Option<Duration>,
    /// What the pause is multiplied by after each further failure; 1 keeps it [default: 2]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    backoff_factor: Option<f64>,
    /// The longest pause [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    backoff_max: Option<Duration>,
    /// Take the pause as it is; otherwise it is drawn from zero to its length
    #[arg(long)]
    no_jitter: bool,
    /// Everything about tries and times as the JSON of the API's policy; the options beside it win
    #[arg(long, value_name = "JSON", value_parser = policy)]
    policy: Option<Box<Policy>>,
}

fn policy(text: &str) -> Result<Box<Policy>, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}; see Policy at /openapi.json"))
}

impl Submit {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        if let Some(path) = &self.file {
            return session::with(settings, Open::OrCreate, Patience::Short, async |fabric| {
                batches::submit(&fabric, path, settings.json).await
            })
            .await;
        }
        let input = self.input.read(settings.limits.input_bytes_max)?;
        let kind = self.kind.as_deref().unwrap_or_default();
        let submission = Submission::of_bytes(kind, &self.input.content_type, input);
        let policy = self.policy.policy.clone().unwrap_or_default();
        let submission = submission.policy((*policy).clone());
        let submission = self.times.apply(self.place.apply(submission)?);
        let submission = self.policy.apply(submission, &policy.backoff)?;
        session::with(settings, Open::OrCreate, Patience::Short, async |fabric| match self.count {
            Some(count) => submit_many(&fabric, &submission, count, settings.json).await,
            None => submit_one(&fabric, submission, self.wait, self.timeout, settings.json).await,
        })
        .await
    }
}

impl Input {
    fn read(&self, max: usize) -> Result<Vec<u8>, Problem> {
        let bounds = Bounds { field: "input", max };
        let bytes = match (&self.input, &self.input_file, &self.stdin) {
            (Some(text), _, _) => text.as_bytes().to_vec(),
            (_, Some(path), _) => bounds.file(path)?,
            (_, _, Some(_)) => bounds.stdin()?,
            _ => b"null".to_vec(),
        };
        check_json("input", &self.content_type, &bytes)?;
        Ok(bytes)
    }
}

impl Place {
    fn apply(&self, submission: Submission) -> Result<Submission, Problem> {
        let priority = i32::try_from(self.priority).map_err(|_| {
            Problem::invalid(format!("priority is {}; allowed are -100 to 100", self.priority))
        })?;
        let submission = submission.lane(&self.lane).namespace(&self.namespace).priority(priority);
        let submission = self.capability.iter().fold(submission, |it, word| it.capability(word));
        let submission = self.tag.iter().fold(submission, |it, (key, value)| it.tag(key, value));
        let submission = match self.id {
            Some(id) => submission.id(id),
            None => submission,
        };
        Ok(match &self.key {
            Some(key) => submission.idempotency_key(key),
            None => submission,
        })
    }
}

impl Times {
    fn apply(&self, submission: Submission) -> Submission {
        let mut it = submission;
        if let Some(delay) = self.delay {
            it = it.delay(delay);
        }
        if let Some(at) = self.run_at {
            it = it.run_at(at);
        }
        it = match self.deadline {
            Some(When::In(length)) => it.deadline(length),
            Some(When::At(at)) => it.deadline_at(at),
            None => it,
        };
        if let Some(time) = self.attempt_timeout {
            it = it.attempt_timeout(time);
        }
        if let Some(time) = self.schedule_to_start {
            it = it.schedule_to_start(time);
        }
        if let Some(time) = self.lease {
            it = it.lease(time);
        }
        it
    }
}

impl Tries {
    fn apply(&self, submission: Submission, default: &Backoff) -> Result<Submission, Problem> {
        let mut it = submission;
        if let Some(attempts) = self.attempts {
            let count = u32::try_from(attempts)
                .map_err(|_| Problem::invalid(format!("attempts is {attempts}; allowed are 1 to 1000")))?;
            it = it.attempts(count);
        }
        let ms = |time: Duration| Ms::try_from(time.as_millis()).unwrap_or(Ms::MAX);
        let initial_ms = self.backoff.map_or(default.initial_ms, ms);
        Ok(it.backoff(Backoff {
            initial_ms,
            factor: self.backoff_factor.unwrap_or(default.factor),
            // A first pause longer than the longest would be cut without a word.
            max_ms: self.backoff_max.map_or(default.max_ms.max(initial_ms), ms),
            jitter: if self.no_jitter { Jitter::None } else { default.jitter },
        }))
    }
}

async fn submit_one(
    fabric: &Fabric,
    submission: Submission,
    wait: bool,
    timeout: Option<Duration>,
    json: bool,
) -> Result<(), Problem> {
    let mut runs = fabric.submit_many(vec![submission]).await;
    let run = runs.pop().unwrap_or(Err(flowfabric::Error::ShuttingDown))?;
    let (id, existing) = (run.id(), run.existing());
    if wait {
        return tokio::select! {
            ended = wait_for(&run, json) => ended,
            () = sleep(timeout) => Err(late(id)),
        };
    }
    if json {
        return view::document(&json!({ "id": id, "existing": existing }));
    }
    view::line(&id.to_string())?;
    if existing {
        eprintln!("note: this key was used before; this is the first execution with it");
    }
    Ok(())
}

async fn submit_many(
    fabric: &Fabric,
    submission: &Submission,
    count: u64,
    json: bool,
) -> Result<(), Problem> {
    let mut ids = Vec::new();
    let mut left = count;
    while left > 0 {
        let chunk = left.min(CHUNK);
        let copies = (0..chunk).map(|_| submission.clone()).collect();
        for run in fabric.submit_many(copies).await {
            match run {
                Ok(run) if json => ids.push(run.id()),
                Ok(run) => view::line(&run.id().to_string())?,
                Err(error) => {
                    let done = count - left;
                    let problem = Problem::from(error);
                    return Err(if done == 0 {
                        problem
                    } else {
                        problem.hint(format!("at least {done} of {count} were stored"))
                    });
                }
            }
        }
        left -= chunk;
    }
    if json {
        view::document(&json!({ "count": count, "ids": ids }))?;
    }
    Ok(())
}
