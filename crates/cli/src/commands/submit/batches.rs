//! The executions of a file on their way, many at once.

use std::io::IsTerminal as _;
use std::path::Path;

use flowfabric::{Error, Fabric, Run};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::jobs::{Job, Jobs, is_stdin};
use crate::problem::{Exit, Problem};
use crate::view;

/// How many are sent at once, and how many bytes.
const BATCH: (usize, usize) = (1_000, 8 << 20);
/// Fewer than these are there before anybody looks.
const SHOWN_MIN: u64 = 2_000;

/// Submits all of a file. Each is answered for itself; the first that is refused decides the exit code.
pub async fn submit(fabric: &Fabric, path: &Path, json: bool) -> Result<(), Problem> {
    let open = || Jobs::open(path, fabric.limits());
    // What cannot be read twice is sent as it comes.
    let count = if is_stdin(path) { None } else { Some(count(open()?)?) };
    let mut sending =
        Sending { name: open()?.name().to_owned(), json, bar: bar(count), done: 0, refused: None };
    let mut jobs = open()?;
    loop {
        let (batch, problem) = gather(&mut jobs);
        let over = batch.is_empty();
        sending.send(fabric, batch).await?;
        if let Some(problem) = problem {
            return Err(problem.hint(format!("{} before it were submitted; submit the rest", sending.done)));
        }
        if over {
            return sending.end();
        }
    }
}

/// Checks a file to its end, so that nothing of one that is wrong is stored.
fn count(mut jobs: Jobs) -> Result<u64, Problem> {
    let mut count = 0;
    while jobs.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// As many as go together, and what is wrong with the next one.
fn gather(jobs: &mut Jobs) -> (Vec<Job>, Option<Problem>) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH.0 && bytes < BATCH.1 {
        match jobs.next() {
            Ok(Some(job)) => {
                bytes += job.bytes;
                batch.push(job);
            }
            Ok(None) => break,
            Err(problem) => return (batch, Some(problem)),
        }
    }
    (batch, None)
}

struct Sending {
    name: String,
    json: bool,
    bar: Option<ProgressBar>,
    done: u64,
    /// How many, and what the first of them ends with.
    refused: Option<(u64, Exit)>,
}

impl Sending {
    async fn send(&mut self, fabric: &Fabric, batch: Vec<Job>) -> Result<(), Problem> {
        let (lines, batch): (Vec<_>, Vec<_>) = batch.into_iter().map(|it| (it.line, it.submission)).unzip();
        let mut lost = None;
        for (line, run) in lines.into_iter().zip(fabric.submit_many(batch).await) {
            match run {
                Ok(run) => self.tell(line, &run)?,
                Err(error) if is_answer(&error) => self.refuse(line, error.into())?,
                Err(error) => lost = lost.or(Some((line, error))),
            }
        }
        self.bar.iter().for_each(|bar| bar.set_position(self.done));
        match lost {
            None => Ok(()),
            Some((line, error)) => {
                let hint = format!(
                    "{} were submitted; executions with an id or an idempotency_key can be submitted again",
                    self.done
                );
                Err(Problem::from(error).at(self.place(line)).hint(hint))
            }
        }
    }

    fn place(&self, line: usize) -> String {
        format!("{}, line {line}", self.name)
    }

    fn tell(&mut self, line: usize, run: &Run) -> Result<(), Problem> {
        self.done += 1;
        match self.json {
            true => view::json_line(&json!({ "line": line, "id": run.id(), "existing": run.existing() })),
            false => view::line(&run.id().to_string()),
        }
    }

    fn refuse(&mut self, line: usize, problem: Problem) -> Result<(), Problem> {
        let (count, exit) = self.refused.unwrap_or((0, problem.exit));
        self.refused = Some((count + 1, exit));
        if self.json {
            return view::json_line(&json!({ "line": line, "error": problem.document() }));
        }
        let problem = problem.at(self.place(line));
        let told = || problem.report(false);
        match &self.bar {
            Some(bar) => bar.suspend(told),
            None => told(),
        };
        Ok(())
    }

    fn end(self) -> Result<(), Problem> {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
        let Some((count, exit)) = self.refused else { return Ok(()) };
        if !self.json {
            eprintln!("{} submitted, {count} refused", self.done);
        }
        Err(Problem::told(exit))
    }
}

/// Whether somebody has decided about it, so that the next one has a chance of its own.
fn is_answer(error: &Error) -> bool {
    matches!(error, Error::Invalid(_) | Error::Rejected(_) | Error::Refused { .. })
}

/// Where people look and ids go elsewhere.
fn bar(count: Option<u64>) -> Option<ProgressBar> {
    let people = std::io::stderr().is_terminal() && !std::io::stdout().is_terminal();
    if !people || count.is_some_and(|count| count < SHOWN_MIN) {
        return None;
    }
    let (bar, template) = match count {
        Some(count) => (ProgressBar::new(count), "{wide_bar} {human_pos} of {human_len}  {per_sec}  {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {human_pos}  {per_sec}"),
    };
    Some(
        bar.with_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        ),
    )
}
