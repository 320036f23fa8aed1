//! `flowfabric workers`

use clap::{Args, Subcommand};
use flowfabric::{Fabric, Filter, InstanceId, PublicState, WorkerInstance, WorkerMode};
use serde_json::{Value, json};

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// List, drain and bury the workers of a store
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric workers list
  flowfabric workers drain 0197f3a2-6f3e-7c41-9b1d-0242ac120002")]
pub struct Workers {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show registered workers and how much they hold
    List {
        /// Also those that have died within the last day
        #[arg(long)]
        all: bool,
    },
    /// Give a worker nothing new; it ends what it holds and stops
    Drain(Instance),
    /// Declare a worker dead; what it holds goes to others at once
    Bury(Instance),
}

#[derive(Args, Debug)]
struct Instance {
    /// The worker's instance, as `workers list` shows it
    #[arg(value_name = "INSTANCE")]
    instance: InstanceId,
    #[command(flatten)]
    by: By,
}

impl Workers {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let (instance, mode) = match self.what {
                What::List { all } => return list(&fabric, all, settings.json).await,
                What::Drain(it) => (it.instance, it.by.apply(fabric.drain_worker(it.instance)).await?),
                What::Bury(it) => (it.instance, it.by.apply(fabric.bury_worker(it.instance)).await?),
            };
            if settings.json {
                return view::document(&json!({ "instance": instance, "mode": mode }));
            }
            view::line(&format!("{instance}  {mode}"))
        })
        .await
    }
}

async fn list(fabric: &Fabric, all: bool, json: bool) -> Result<(), Problem> {
    let workers = fabric.workers().await?;
    let mut rows = Vec::new();
    for worker in workers.iter().filter(|it| all || it.mode != WorkerMode::Dead) {
        let instance = Some(worker.instance);
        let filter = Filter { states: vec![PublicState::Active], instance, ..Filter::default() };
        rows.push((worker, fabric.count(&filter).await?.count));
    }
    if json {
        let rows: Vec<_> = rows.iter().map(|(worker, holds)| value(worker, *holds)).collect();
        return view::document(&json!({ "workers": rows }));
    }
    let mut table =
        view::table(&["instance", "name", "mode", "lanes", "capabilities", "holds", "registered"]);
    for (worker, holds) in rows {
        let words: Vec<&str> = worker.capabilities.as_slice().iter().map(|word| word.as_str()).collect();
        let lanes: Vec<&str> = worker.lanes.iter().map(|lane| lane.as_str()).collect();
        table.add_row(vec![
            worker.instance.to_string(),
            worker.name.to_string(),
            worker.mode.to_string(),
            lanes.join(", "),
            words.join(", "),
            holds.to_string(),
            view::age(worker.registered_at, parse::now()),
        ]);
    }
    view::print_table(&table)
}

fn value(worker: &WorkerInstance, holds: u64) -> Value {
    json!({
        "instance": worker.instance,
        "name": worker.name,
        "mode": worker.mode,
        "lanes": worker.lanes,
        "capabilities": worker.capabilities.as_slice(),
        "build": worker.build,
        "holds": holds,
        "registered_at": view::time(worker.registered_at),
        "died_at": worker.died_at.map(view::time),
        "actor": worker.actor,
        "cause": worker.cause,
    })
}
