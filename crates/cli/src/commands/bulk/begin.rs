//! Beginning a bulk operation: cancel, replay, priority.

use std::time::Duration;

use clap::Args;
use flowfabric::{BulkPreview, ExecutionId, Fabric, Filter, NewBulk};
use serde_json::json;

use super::By;
use super::look::follow;
use crate::commands::wanted::Wanted;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Which executions, how fast, and why.
#[derive(Args, Debug)]
struct Common {
    /// Every execution there is
    #[arg(long)]
    all: bool,
    /// Only say how many it would be, and which are the first
    #[arg(long)]
    dry_run: bool,
    /// No more than so many in a second
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Leave it to the server, and print its id
    #[arg(long)]
    detach: bool,
    /// The id it gets; asked again with the same id and content, it is not begun a second time
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    filter: Wanted,
}

/// Cancel many executions
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bulk cancel --kind charge --state waiting --dry-run
  flowfabric bulk cancel --lane billing --grace 10s --rate 50 --cause 'the bank is closed'
  flowfabric bulk cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002 0197f3a2-6f3e-7c41-9b1d-0242ac120003")]
pub struct Cancel {
    /// These executions, if no filter says which
    #[arg(value_name = "ID")]
    ids: Vec<ExecutionId>,
    /// How long a worker that runs one of them may take to end by itself
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    grace: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// Run many executions that have ended again
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bulk replay --state failed --since 1h --dry-run
  flowfabric bulk replay --state failed --error-code timeout --rate 100
  flowfabric bulk replay --state failed --since 1d --id bulk_monday --detach")]
pub struct Replay {
    /// These executions, if no filter says which
    #[arg(value_name = "ID")]
    ids: Vec<ExecutionId>,
    #[command(flatten)]
    common: Common,
}

/// Change the priority of many executions that have not ended
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bulk priority 50 --lane billing
  flowfabric bulk priority -10 --tag team.name=reports --state waiting")]
pub struct Priority {
    /// From -100 to 100; higher is sooner
    #[arg(value_name = "N", allow_negative_numbers = true)]
    priority: i64,
    /// These executions, if no filter says which
    #[arg(value_name = "ID")]
    ids: Vec<ExecutionId>,
    #[command(flatten)]
    common: Common,
}

impl Cancel {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let grace = self.grace;
        self.common
            .run(settings, self.ids, |fabric| {
                let new = fabric.bulk().cancel();
                match grace {
                    Some(grace) => new.grace(grace),
                    None => new,
                }
            })
            .await
    }
}

impl Replay {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        self.common.run(settings, self.ids, |fabric| fabric.bulk().replay()).await
    }
}

impl Priority {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let fits = i8::try_from(self.priority).ok().filter(|it| (-100..=100).contains(it));
        let problem = || format!("priority is {}; allowed are -100 to 100", self.priority);
        let priority = fits.ok_or_else(|| Problem::invalid(problem()))?;
        self.common.run(settings, self.ids, |fabric| fabric.bulk().set_priority(priority)).await
    }
}

impl Common {
    async fn run(
        self,
        settings: &Settings,
        ids: Vec<ExecutionId>,
        new: impl FnOnce(&Fabric) -> NewBulk,
    ) -> Result<(), Problem> {
        if self.detach && settings.server.is_none() {
            return Err(Problem::usage("--detach leaves it to a server, and none is named")
                .hint("give --server, or leave out --detach"));
        }
        let filter = self.filter.filter();
        let which = which(ids, filter, self.all)?;
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let new = new(&fabric).actor(&self.by.actor()).cause(&self.by.cause);
            let new = match which {
                Which::Ids(ids) => new.ids(ids),
                Which::Filter(filter) => new.filter(&filter),
            };
            let new = match &self.id {
                Some(id) => new.id(id),
                None => new,
            };
            let new = match self.rate {
                Some(rate) => new.rate(rate),
                None => new,
            };
            if self.dry_run {
                return tell(&new.preview().await?, settings.json);
            }
            let run = new.await?;
            if self.detach {
                return match settings.json {
                    true => view::document(&json!(run.get().await?)),
                    false => view::line(run.id()),
                };
            }
            follow(&run, None, settings).await
        })
        .await
    }
}

enum Which {
    Ids(Vec<ExecutionId>),
    Filter(Box<Filter>),
}

/// Nobody means all executions by saying nothing.
fn which(ids: Vec<ExecutionId>, filter: Filter, all: bool) -> Result<Which, Problem> {
    let filtered = filter != Filter::default();
    match (ids.is_empty(), filtered, all) {
        (false, false, false) => Ok(Which::Ids(ids)),
        (true, true, false) | (true, false, true) => Ok(Which::Filter(Box::new(filter))),
        (true, false, false) => Err(Problem::usage("which executions? give ids, filters, or --all")
            .hint("--dry-run shows what it would be")),
        _ => Err(Problem::usage("give ids, or filters, or --all; not more than one of the three")),
    }
}

fn tell(preview: &BulkPreview, json: bool) -> Result<(), Problem> {
    if json {
        return view::document(&json!(preview));
    }
    let more = if preview.more { " or more" } else { "" };
    view::line(&format!("{} of {}{more} that match", preview.done, preview.seen))?;
    preview.first.iter().try_for_each(|id| view::line(&id.to_string()))
}
