//! `flowfabric workers`, and the same below `flowfabric worker`

use clap::{Args, Subcommand};
use flowfabric::{Fabric, Filter, InstanceId, PublicState, WorkerInstance, WorkerMode};
use serde_json::{Value, json};

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// List, show, drain and bury the workers of a store
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric workers list
  flowfabric workers get 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric workers drain 0197f3a2-6f3e-7c41-9b1d-0242ac120002

`flowfabric worker list` and the others are the same.")]
pub struct Workers {
    #[command(subcommand)]
    what: Manage,
}

#[derive(Subcommand, Debug)]
pub enum Manage {
    /// Show registered workers and how much they hold
    List {
        /// Also those that have died within the last day
        #[arg(long)]
        all: bool,
    },
    /// Show one worker, also if it has died within the last day
    #[command(after_help = "Example:\n  flowfabric worker get 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --json")]
    Get {
        /// The worker's instance, as `worker list` shows it
        #[arg(value_name = "INSTANCE")]
        instance: InstanceId,
    },
    /// Give a worker nothing new; it ends what it holds and stops
    #[command(after_help = "Example:\n  flowfabric worker drain 0197f3a2-6f3e-7c41-9b1d-0242ac120002")]
    Drain(Instance),
    /// Declare a worker dead; what it holds goes to others at once
    #[command(
        after_help = "Example:\n  flowfabric worker bury 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --cause 'the machine burnt'"
    )]
    Bury(Instance),
}

#[derive(Args, Debug)]
pub struct Instance {
    /// The worker's instance, as `worker list` shows it
    #[arg(value_name = "INSTANCE")]
    instance: InstanceId,
    #[command(flatten)]
    by: By,
}

impl Workers {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        self.what.run(settings).await
    }
}

impl Manage {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let (instance, mode) = match self {
                Manage::List { all } => return list(&fabric, all, settings.json).await,
                Manage::Get { instance } => return get(&fabric, instance, settings.json).await,
                Manage::Drain(it) => (it.instance, it.by.apply(fabric.drain_worker(it.instance)).await?),
                Manage::Bury(it) => (it.instance, it.by.apply(fabric.bury_worker(it.instance)).await?),
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
        rows.push((worker, holds(fabric, worker).await?));
    }
    if json {
        let rows: Vec<_> = rows.iter().map(|(worker, holds)| value(worker, *holds)).collect();
        return view::document(&json!({ "workers": rows }));
    }
    let mut table =
        view::table(&["instance", "name", "mode", "lanes", "capabilities", "holds", "registered"]);
    for (worker, holds) in rows {
        table.add_row(vec![
            worker.instance.to_string(),
            worker.name.to_string(),
            worker.mode.to_string(),
            lanes(worker),
            capabilities(worker),
            holds.to_string(),
            view::age(worker.registered_at, parse::now()),
        ]);
    }
    view::print_table(&table)
}

async fn get(fabric: &Fabric, instance: InstanceId, json: bool) -> Result<(), Problem> {
    let found = fabric.workers().await?.into_iter().find(|it| it.instance == instance);
    let worker = found.ok_or_else(|| {
        Problem::not_found(format!("there is no worker {instance}"))
            .hint("`flowfabric worker list --all` shows them")
    })?;
    let holds = holds(fabric, &worker).await?;
    if json {
        return view::document(&value(&worker, holds));
    }
    let now = parse::now();
    let mut fields = vec![
        ("instance", worker.instance.to_string()),
        ("name", worker.name.to_string()),
        ("mode", worker.mode.to_string()),
        ("lanes", lanes(&worker)),
        ("capabilities", capabilities(&worker)),
        ("holds", holds.to_string()),
        ("registered", view::time_and_age(worker.registered_at, now)),
    ];
    fields.extend(worker.build.as_ref().map(|build| ("build", build.to_string())));
    fields.extend(worker.died_at.map(|at| ("died", view::time_and_age(at, now))));
    if worker.mode != WorkerMode::Active {
        fields.push(("by", format!("{} {}", worker.actor, worker.cause).trim().to_owned()));
    }
    view::print_fields(&fields)
}

/// How many executions a worker has.
async fn holds(fabric: &Fabric, worker: &WorkerInstance) -> Result<u64, Problem> {
    let instance = Some(worker.instance);
    let filter = Filter { states: vec![PublicState::Active], instance, ..Filter::default() };
    Ok(fabric.count(&filter).await?.count)
}

fn lanes(worker: &WorkerInstance) -> String {
    worker.lanes.iter().map(|lane| lane.as_str()).collect::<Vec<_>>().join(", ")
}

fn capabilities(worker: &WorkerInstance) -> String {
    worker.capabilities.as_slice().iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", ")
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
