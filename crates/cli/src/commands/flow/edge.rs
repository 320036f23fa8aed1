//! `flowfabric flow edge`

use clap::Args;
use flowfabric::{FlowId, On, Upstream};

use super::super::operate::Who;
use super::member;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// Add an edge to an open node of a flow
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow edge 0197f3a2-6f3e-7c41-9b1d-0242ac120002 page-3 bind
  flowfabric flow edge 0197f3a2-6f3e-7c41-9b1d-0242ac120002 page-3 bind --as third
  flowfabric flow edge 0197f3a2-6f3e-7c41-9b1d-0242ac120002 pay refund --on failure

Nodes are named, or given by their ids.")]
pub struct Edge {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// The node that comes before
    #[arg(value_name = "FROM")]
    from: String,
    /// The open node that comes after
    #[arg(value_name = "TO")]
    to: String,
    /// Which ending of the first counts: success, failure, always
    #[arg(long, value_name = "ENDING", default_value = "success", value_parser = parse::on)]
    on: On,
    /// The field under which the second gets the result of the first
    #[arg(long = "as", value_name = "FIELD")]
    field: Option<String>,
    /// Only if the flow has this revision
    #[arg(long, value_name = "NUMBER")]
    expected_revision: Option<u64>,
    #[command(flatten)]
    who: Who,
}

impl Edge {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            let mut growth = run.grow().actor(&self.who.name());
            if let Some(revision) = self.expected_revision {
                growth = growth.expected_revision(revision);
            }
            let from = growth.member(member(&run, &self.from).await?);
            let to = growth.member(member(&run, &self.to).await?);
            let upstream: Upstream = match (self.on, &self.field) {
                (On::Success, None) => (&from).into(),
                (On::Success, Some(field)) => from.result_as(field),
                (_, Some(_)) => {
                    return Err(Problem::invalid(
                        "--as goes with --on success; only what completes has a result",
                    ));
                }
                (On::Failure, None) => from.failed(),
                (On::Always, None) => from.ended(),
            };
            growth.edge(upstream, &to);
            let flow = growth.submit().await?;
            match settings.json {
                true => view::document(&flow_view::value(&flow)),
                false => {
                    let (edges, revision) = (flow.live.edges, flow.live.revision);
                    view::line(&format!("{}  {edges} edges, revision {revision}", self.id))
                }
            }
        })
        .await
    }
}
