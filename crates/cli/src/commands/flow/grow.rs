//! `flowfabric flow grow`

use clap::Args;
use flowfabric::{Fabric, FlowId, FlowRun};
use serde_json::{Map, Value, json};

use super::super::operate::Who;
use crate::flow_file::{self, FlowFile, Format};
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, view};

/// How many members are asked for at once.
const PAGE: usize = 1_000;

/// Add nodes from a YAML or JSON file to an open flow
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow grow 0197f3a2-6f3e-7c41-9b1d-0242ac120002 more.yaml
  flowfabric flow grow 0197f3a2-6f3e-7c41-9b1d-0242ac120002 more.yaml --expected-revision 3

The file has nodes, and defaults for them, as that of `flow submit`. They may wait for nodes of the flow by name:
  nodes:
    invoice: { after: pay, input: { copies: 2 } }
Up to 1,000 nodes and edges are stored whole or not at all; more go in parts, upstreams first.")]
pub struct Grow {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// The file; - reads it from standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Only if the flow has this revision: nobody else has changed its graph meanwhile
    #[arg(long, value_name = "NUMBER")]
    expected_revision: Option<u64>,
    #[command(flatten)]
    who: Who,
}

impl Grow {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let read = flow_file::read(&self.file)?;
        session::with(settings, Open::Existing, Patience::Short, |fabric| {
            self.grow(fabric, read, settings.json)
        })
        .await
    }

    async fn grow(
        self,
        fabric: Fabric,
        (name, text, format): (String, String, Format),
        json: bool,
    ) -> Result<(), Problem> {
        let run = fabric.flow_run(self.id);
        let mut growth = run.grow().actor(&self.who.name());
        if let Some(revision) = self.expected_revision {
            growth = growth.expected_revision(revision);
        }
        let there = members(&run).await?;
        let there: Vec<_> = there.into_iter().map(|(name, id)| (name, growth.member(id))).collect();
        let file = FlowFile::growth(&name, &text, format, growth, &there)?;
        let flow = file.flow.submit().await.map_err(|error| file.explain(error))?;
        if json {
            let nodes: Map<String, Value> =
                file.nodes.iter().map(|(name, node)| (name.clone(), json!(node.id()))).collect();
            let mut value = flow_view::value(&flow);
            value["nodes"] = json!(nodes);
            return view::document(&value);
        }
        let (nodes, revision) = (flow.live.nodes, flow.live.revision);
        view::line(&format!("{}  {nodes} nodes, revision {revision}", self.id))
    }
}

/// The members that have names.
async fn members(run: &FlowRun) -> Result<Vec<(String, flowfabric::ExecutionId)>, Problem> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = run.describe(after, PAGE).await?;
        let name =
            |it: &flowfabric::Execution| it.spec.member.as_ref()?.name.as_ref().map(|it| it.to_string());
        all.extend(page.members.iter().filter_map(|it| Some((name(it)?, it.id))));
        match page.next {
            Some(next) => after = next,
            None => return Ok(all),
        }
    }
}
