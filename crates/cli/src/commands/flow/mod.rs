//! `flowfabric flow`

mod cancel;
mod get;
mod graph;
mod list;
mod seal;
mod submit;
mod tag;

use clap::{Args, Subcommand};
use flowfabric::{FlowId, FlowState};

use crate::problem::{Exit, Problem};
use crate::settings::Settings;

/// Submit, look at, draw and cancel flows: graphs of executions
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow submit trip.yaml --wait
  flowfabric flow get 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric flow graph 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --watch
  flowfabric flow cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --policy cancel_pending --wait
  flowfabric flow list --state failed --since 1d")]
pub struct Flow {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Submit(submit::Submit),
    Get(get::Get),
    Graph(graph::Graph),
    List(list::List),
    Cancel(cancel::Cancel),
    Seal(seal::Seal),
    Tag(tag::Tag),
}

impl Flow {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        match self.what {
            What::Submit(it) => it.run(settings).await,
            What::Get(it) => it.run(settings).await,
            What::Graph(it) => it.run(settings).await,
            What::List(it) => it.run(settings).await,
            What::Cancel(it) => it.run(settings).await,
            What::Seal(it) => it.run(settings).await,
            What::Tag(it) => it.run(settings).await,
        }
    }
}

/// Whoever waited for a flow learns by the exit code whether it completed.
fn exit_of(state: FlowState) -> Result<(), Problem> {
    match state {
        FlowState::Completed => Ok(()),
        _ => Err(Problem::told(Exit::NotCompleted)),
    }
}

fn late(id: FlowId) -> Problem {
    Problem::timeout(format!("flow {id} has not ended in time"))
        .hint(format!("it goes on; `flowfabric flow graph {id}` shows where it stands"))
}
