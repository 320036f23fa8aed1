//! `flowfabric stream`

use std::time::Duration;

use clap::Args;
use flowfabric::{ExecutionId, Fabric, Frame, Output, Place, Tail};
use serde_json::{Value, json};

use super::watch::sleep;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// How many are shown newest first.
const NEWEST: usize = 100;

/// Show the output of an execution, frame by frame
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric stream 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric stream 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --follow --after 1:42
  flowfabric stream 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --newest-first --limit 20
  flowfabric stream 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --attempt 2 --limit 100
  flowfabric stream 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --summary

Each line starts with a place, ATTEMPT:NUMBER, from which --after goes on: with what comes later, or
with what came before if the newest come first. Newest first are the frames of one attempt: that of
--attempt or --after, or the newest that has any.")]
pub struct Stream {
    #[arg(value_name = "ID")]
    id: ExecutionId,
    /// Go on until the execution has ended
    #[arg(long)]
    follow: bool,
    /// Only what comes after this place, ATTEMPT:NUMBER
    #[arg(long, value_name = "PLACE")]
    after: Option<Place>,
    /// Show the newest frames of an attempt, the last one first
    #[arg(long, conflicts_with = "follow")]
    newest_first: bool,
    /// Only the frames of this attempt
    #[arg(long, value_name = "NUMBER", conflicts_with = "after")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// How many frames at most [default: 100 with --newest-first, all otherwise]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: Option<u32>,
    /// Show the summary document instead
    #[arg(long, conflicts_with_all = ["follow", "after", "attempt", "limit", "newest_first"])]
    summary: bool,
    /// Stop following after so long
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    #[arg(requires = "follow")]
    timeout: Option<Duration>,
}

impl Stream {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, |fabric| self.show(fabric, settings.json))
            .await
    }

    async fn show(self, fabric: Fabric, json: bool) -> Result<(), Problem> {
        let run = fabric.run(self.id);
        if self.summary {
            run.get().await?;
            let summary = run.summary().await?;
            let document =
                summary.as_ref().and_then(|it| serde_json::from_str::<Value>(it.document.get()).ok());
            let version = summary.map_or(0, |it| it.version);
            return match json {
                true => view::document(&json!({ "id": self.id, "version": version, "document": document })),
                false => view::document(&json!(document)),
            };
        }
        if self.newest_first {
            let frames = run.frames().newest_first().limit(self.limit.map_or(NEWEST, |it| it as usize));
            let frames = match (self.after, self.attempt) {
                (Some(place), _) => frames.attempt(place.attempt).after(place.number),
                (None, Some(attempt)) => frames.attempt(attempt),
                (None, None) => frames,
            };
            for frame in frames.await? {
                let place = Place { attempt: frame.attempt, number: frame.number };
                tell(place, &Output::Frame(frame), json)?;
            }
            return Ok(());
        }
        let start = self.attempt.map(|attempt| Place { attempt, number: 0 });
        let mut tail = run.tail(self.after.or(start)).await?;
        tokio::select! {
            end = self.follow(&mut tail, json) => end,
            () = sleep(self.timeout) => Ok(()),
            () = flowfabric::asked_to_end() => Ok(()),
        }
    }

    /// Oldest first, until it ends or is enough.
    async fn follow(&self, tail: &mut Tail, json: bool) -> Result<(), Problem> {
        let mut left = self.limit;
        while left != Some(0)
            && let Some(output) = if self.follow { tail.next().await } else { tail.next_now().await }?
        {
            let is_later = self.attempt.is_some_and(|wanted| match &output {
                Output::Frame(frame) => frame.attempt > wanted,
                Output::Closed { attempt, .. } => *attempt > wanted,
                Output::Ended(_) => true,
            });
            if is_later {
                return Ok(());
            }
            tell(tail.place(), &output, json)?;
            match output {
                Output::Frame(_) => left = left.map(|left| left - 1),
                Output::Closed { attempt, .. } if self.attempt == Some(attempt) => return Ok(()),
                Output::Closed { .. } | Output::Ended(_) => {}
            }
        }
        Ok(())
    }
}

fn tell(place: Place, output: &Output, json: bool) -> Result<(), Problem> {
    if json {
        let mut value = value(output);
        value["place"] = json!(place.to_string());
        return view::json_line(&value);
    }
    view::line(&match output {
        Output::Frame(frame) => format!("{place}  {}  {}", frame.kind, text(frame)),
        Output::Closed { attempt, outcome } => format!("attempt {attempt} {}", outcome.word()),
        Output::Ended(state) => state.word().to_owned(),
    })
}

fn text(frame: &Frame) -> String {
    match std::str::from_utf8(&frame.bytes) {
        Ok(text) => view::cut(text, 2_000),
        Err(_) => format!("{} bytes", frame.bytes.len()),
    }
}

fn value(output: &Output) -> Value {
    match output {
        Output::Frame(frame) => {
            let text = std::str::from_utf8(&frame.bytes).ok();
            json!({
                "attempt": frame.attempt,
                "number": frame.number,
                "at": view::time(frame.at),
                "kind": frame.kind,
                "mode": frame.mode,
                "text": text,
                "bytes": frame.bytes.len(),
            })
        }
        Output::Closed { attempt, outcome } => json!({ "closed": attempt, "outcome": outcome }),
        Output::Ended(state) => json!({ "ended": state }),
    }
}
