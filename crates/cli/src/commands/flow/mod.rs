//! `flowfabric flow`

mod cancel;
mod edge;
mod edges;
mod get;
mod graph;
mod grow;
mod list;
mod policy;
mod result;
mod seal;
mod submit;
mod tag;

use clap::{Args, Subcommand};
use flowfabric::{ExecutionId, FlowId, FlowRun, FlowState};

use crate::problem::{Exit, Problem};
use crate::settings::Settings;

/// Submit, look at, draw, grow and cancel flows: graphs of executions
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow submit trip.yaml --wait
  flowfabric flow get 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric flow result 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --timeout 1m
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
    Result(result::Result),
    Graph(graph::Graph),
    List(list::List),
    Cancel(cancel::Cancel),
    Grow(grow::Grow),
    Edge(edge::Edge),
    Edges(edges::Edges),
    Policy(policy::Policy),
    Seal(seal::Seal),
    Tag(tag::Tag),
}

impl Flow {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        match self.what {
            What::Submit(it) => it.run(settings).await,
            What::Get(it) => it.run(settings).await,
            What::Result(it) => it.run(settings).await,
            What::Graph(it) => it.run(settings).await,
            What::List(it) => it.run(settings).await,
            What::Cancel(it) => it.run(settings).await,
            What::Grow(it) => it.run(settings).await,
            What::Edge(it) => it.run(settings).await,
            What::Edges(it) => it.run(settings).await,
            What::Policy(it) => it.run(settings).await,
            What::Seal(it) => it.run(settings).await,
            What::Tag(it) => it.run(settings).await,
        }
    }
}

/// A node of a flow, by its id or its name.
async fn member(run: &FlowRun, text: &str) -> Result<ExecutionId, Problem> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(run.named(text).await?.id()),
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
