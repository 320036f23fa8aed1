//! `flowfabric flow submit`

use std::io::Read;
use std::time::Duration;

use clap::Args;
use flowfabric::{Fabric, FlowRun, FlowState};
use serde_json::{Map, Value, json};

use super::super::watch::sleep;
use super::late;
use crate::flow_file::{FlowFile, Format};
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// How large a file may be.
const FILE_MAX: u64 = 64 << 20;

/// Submit a flow from a YAML or JSON file; prints its id
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow submit trip.yaml
  flowfabric flow submit trip.json --tag day=monday --wait --timeout 10m
  generate-flow | flowfabric flow submit - --json

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
        let text = self.read()?;
        session::with(settings, Open::OrCreate, Patience::Short, |fabric| {
            self.submit(fabric, text, settings.json)
        })
        .await
    }

    fn read(&self) -> Result<String, Problem> {
        let cannot = |error: std::io::Error| {
            Problem::invalid(format!("file: cannot read {}: {error}", self.file))
                .hint("give the path of a YAML or JSON file, or - for standard input")
        };
        let source: Box<dyn Read> = match self.file.as_str() {
            "-" => Box::new(std::io::stdin()),
            path => Box::new(std::fs::File::open(path).map_err(cannot)?),
        };
        let mut text = String::new();
        source.take(FILE_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > FILE_MAX {
            return Err(Problem::invalid(format!("file has more than {FILE_MAX} bytes; that is too large")));
        }
        Ok(text)
    }

    /// By the end of its name; what has none is JSON if it looks like it.
    fn format(&self, text: &str) -> Format {
        match self.file.rsplit_once('.').map(|(_, end)| end) {
            Some("json") => Format::Json,
            Some("yaml" | "yml") => Format::Yaml,
            _ if text.trim_start().starts_with('{') && serde_json::from_str::<Value>(text).is_ok() => {
                Format::Json
            }
            _ => Format::Yaml,
        }
    }

    async fn submit(self, fabric: Fabric, text: String, json: bool) -> Result<(), Problem> {
        let name = if self.file == "-" { "standard input" } else { &self.file };
        let mut file = FlowFile::read(name, &text, self.format(&text), &fabric)?;
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
            return view::document(&json!({ "id": run.id(), "nodes": nodes }));
        }
        view::line(&run.id().to_string())
    }
}

async fn wait_for(run: &FlowRun, json: bool) -> Result<(), Problem> {
    if !json {
        eprintln!("{}", run.id());
    }
    let flow = run.wait().await?;
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
