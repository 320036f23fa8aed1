//! `flowfabric flow graph`

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use flowfabric::{Fabric, FlowId, FlowRun, FlowState, Graph as Drawn, Start};
use serde_json::{Value, json};

use super::super::watch::sleep;
use super::{exit_of, late};
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_graph, flow_view, parse, view};

/// How often it is drawn again at most.
const FRAME: Duration = Duration::from_millis(100);
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Draw a flow in the terminal, level by level, once or as it goes on
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow graph 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric flow graph 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --watch
  flowfabric flow graph 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --json | jq .edges

Signs:
  ○ waits for others   ◔ delayed   ◌ waits for a worker   ● runs   ‖ held
  ✔ completed   ✖ failed or expired   ⊘ cancelled   ↷ skipped")]
pub struct Graph {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// Draw it again whenever something changes, until it has ended; the exit code is 6 if it did not complete
    #[arg(long)]
    watch: bool,
    /// How long to watch
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires = "watch")]
    #[arg(allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// How many nodes are drawn at most
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    limit: usize,
}

impl Graph {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, |fabric| self.show(fabric, settings.json))
            .await
    }

    async fn show(self, fabric: Fabric, json: bool) -> Result<(), Problem> {
        let run = fabric.flow_run(self.id);
        if !self.watch {
            let drawn = run.graph(self.limit).await?;
            return if json { view::document(&value(&drawn)) } else { print(&drawn, "") };
        }
        tokio::select! {
            biased;
            ended = self.follow(&run, json) => exit_of(ended?),
            () = sleep(self.timeout) => Err(late(self.id)),
            // Whoever goes on only if it has completed must not go on now.
            () = flowfabric::asked_to_end() => Err(Problem::told(Exit::NotCompleted)),
        }
    }

    async fn follow(&self, run: &FlowRun, json: bool) -> Result<FlowState, Problem> {
        // On a terminal each drawing takes the place of the one before.
        let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
        let mut events = run.events(Start::Now).await?;
        let mut shown = None;
        loop {
            let drawn = run.graph(self.limit).await?;
            if shown.as_ref() != Some(&drawn) {
                if json { view::json_line(&value(&drawn)) } else { print(&drawn, clear) }?;
            }
            if drawn.flow.live.end.is_some() {
                return Ok(drawn.flow.state());
            }
            shown = Some(drawn);
            events.next().await?;
            // What happens at the same time is drawn together.
            let frame = sleep(Some(FRAME));
            tokio::pin!(frame);
            loop {
                tokio::select! {
                    () = &mut frame => break,
                    seen = events.next() => drop(seen?),
                }
            }
        }
    }
}

fn value(drawn: &Drawn) -> Value {
    let mut value = flow_view::value(&drawn.flow);
    value["nodes"] = drawn.members.iter().map(|it| flow_view::member_value(it)).collect();
    value["edges"] = drawn.edges.iter().map(|it| flow_view::edge_value(it)).collect();
    value["more"] = json!(drawn.more);
    value
}

fn print(drawn: &Drawn, clear: &str) -> Result<(), Problem> {
    view::line(&format!("{clear}{}", flow_graph::draw(drawn, parse::now()).join("\n")))
}
