//! `flowfabric steps`

use clap::Args;
use flowfabric::{ExecutionId, Step};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// How much of a result the table shows.
const RESULT_CHARS: usize = 60;

/// Show the recorded steps of an execution, with times and results
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric steps 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric steps 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --json | jq .steps[0].result")]
pub struct Steps {
    #[arg(value_name = "ID")]
    id: ExecutionId,
}

impl Steps {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let steps = fabric.run(self.id).steps().await?;
            if settings.json {
                let rows: Vec<Value> = steps.iter().map(value).collect();
                return view::document(&json!({ "id": self.id, "steps": rows }));
            }
            view::print_table(&table(&steps))
        })
        .await
    }
}

fn table(steps: &[Step]) -> comfy_table::Table {
    let mut table = view::table(&["step", "does", "try", "ended", "took", "result"]);
    for step in steps {
        table.add_row(vec![
            step.key.to_string(),
            step.kind.word().to_owned(),
            step.attempt.to_string(),
            view::time(step.ended_at),
            view::short(step.ended_at - step.started_at),
            view::cut(&view::payload_value(&step.result).to_string(), RESULT_CHARS),
        ]);
    }
    table
}

fn value(step: &Step) -> Value {
    json!({
        "name": step.key.name,
        "occurrence": step.key.occurrence,
        "kind": step.kind,
        "attempt": step.attempt,
        "started_at": view::time(step.started_at),
        "ended_at": view::time(step.ended_at),
        "result": view::payload_value(&step.result),
    })
}
