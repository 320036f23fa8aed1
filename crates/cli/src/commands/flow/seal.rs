//! `flowfabric flow seal`

use clap::Args;
use flowfabric::{ExecutionId, FlowId};

use super::super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, view};

/// Let nothing more be added to an open flow, or to one of its open nodes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow seal 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric flow seal 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --node 0197f3a2-6f3e-7c41-9b1d-0242ac120003")]
pub struct Seal {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Only this node: it gets no more upstreams
    #[arg(long, value_name = "ID")]
    node: Option<ExecutionId>,
    #[command(flatten)]
    by: By,
}

impl Seal {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            let operation = self.node.map_or_else(|| run.seal(), |node| run.seal_node(node));
            let flow = self.by.apply(operation).await?;
            match settings.json {
                true => view::document(&flow_view::value(&flow)),
                false => view::line(&format!("{}  {}", self.id, flow.state())),
            }
        })
        .await
    }
}
