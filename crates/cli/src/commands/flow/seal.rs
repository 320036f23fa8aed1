//! `flowfabric flow seal`

use clap::Args;
use flowfabric::FlowId;

use super::super::operate::By;
use super::member;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, view};

/// Let nothing more be added to an open flow, or to one of its open nodes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow seal 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric flow seal 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --node bind
  flowfabric flow seal 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --expected-revision 3

The node is named, or given by its id.")]
pub struct Seal {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Only this node: it gets no more upstreams
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only if the flow has this revision: nobody else has changed its graph meanwhile
    #[arg(long, value_name = "NUMBER")]
    expected_revision: Option<u64>,
    #[command(flatten)]
    by: By,
}

impl Seal {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            let mut operation = match &self.node {
                Some(node) => run.seal_node(member(&run, node).await?),
                None => run.seal(),
            };
            if let Some(revision) = self.expected_revision {
                operation = operation.expected_revision(revision);
            }
            let flow = self.by.apply(operation).await?;
            match settings.json {
                true => view::document(&flow_view::value(&flow)),
                false => view::line(&format!("{}  {}", self.id, flow.state())),
            }
        })
        .await
    }
}
