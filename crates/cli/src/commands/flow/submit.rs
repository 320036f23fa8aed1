//! `flowfabric flow submit`

use std::time::Duration;

use clap::Args;
use flowfabric::{Fabric, FlowId, FlowRun, FlowState};
use serde_json::{Map, Value, json};

use super::super::operate::Who;
use super::super::watch::sleep;
use super::late;
use crate::flow_file::{self, FlowFile, Format};
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// Submit a flow from a YAML or JSON file; prints its id
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow submit trip.yaml
  flowfabric flow submit trip.json --tag day=monday --wait --timeout 10m
  generate-flow | flowfabric flow submit - --json
  flowfabric flow submit trip.yaml --id 0197f3a2-6f3e-7c41-9b1d-0242ac120002

A small file:
  kind: trip
  nodes:
    north: { kind: ask, input: north }
    south: { kind: ask, input: south }
    pick:  { any_of: [north, south] }
    pay:   { inputs: { flight: pick } }

Its fields, and what else a node may say: docs/flows.md")]
pub struct Submit {
    /// The file; - reads it from standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// A tag of the flow; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::tag)]
    tag: Vec<(String, String)>,
    /// The id it gets, a UUID; asked again with the same id and content, it is not made a second time
    #[arg(long, value_name = "ID")]
    id: Option<FlowId>,
    #[command(flatten)]
    who: Who,
    /// Wait for its end and print its result; the exit code is 6 if it did not complete
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires = "wait")]
    #[arg(allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

impl Submit {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let read = flow_file::read(&self.file)?;
        session::with(settings, Open::OrCreate, Patience::Short, |fabric| {
            self.submit(fabric, read, settings.json)
        })
        .await
    }

    async fn submit(
        self,
        fabric: Fabric,
        (name, text, format): (String, String, Format),
        json: bool,
    ) -> Result<(), Problem> {
        let mut file = FlowFile::new_flow(&name, &text, format, &fabric, self.id)?;
        file.flow = file.flow.actor(&self.who.name());
        for (key, value) in &self.tag {
            file.flow = file.flow.tag(key, value);
        }
        let run = file.flow.submit().await.map_err(|error| file.explain(error))?;
        if self.wait {
            return tokio::select! {
                ended = wait_for(&run, json) => ended,
                () = sleep(self.timeout) => Err(late(run.id())),
            };
        }
        if json {
            let nodes: Map<String, Value> =
                file.nodes.iter().map(|(name, node)| (name.clone(), json!(node.id()))).collect();
            let (id, existing) = (run.id(), run.existing());
            return view::document(&json!({ "id": id, "existing": existing, "nodes": nodes }));
        }
        view::line(&run.id().to_string())?;
        if run.existing() {
            eprintln!("note: this id was used before; this is the flow that was made with it");
        }
        Ok(())
    }
}

pub(super) async fn wait_for(run: &FlowRun, json: bool) -> Result<(), Problem> {
    if !json {
        eprintln!("{}", run.id());
    }
    let flow = session::until_ended(async || run.wait().await).await?;
    let completed = flow.state() == FlowState::Completed;
    let result = run.result::<Value>().await;
    if json {
        let mut value = flow_view::value(&flow);
        value["result"] = json!(result.as_ref().ok());
        value["problem"] = json!(result.as_ref().err().map(|error| error.to_string()));
        view::document(&value)?;
        return if completed { Ok(()) } else { Err(Problem::told(Exit::NotCompleted)) };
    }
    match result {
        Ok(result) => view::line(&result.to_string()),
        Err(error) => Err(Problem::from(error)
            .hint(format!("`flowfabric flow graph {}` shows what became of each node", run.id()))),
    }
}
