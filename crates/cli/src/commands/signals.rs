//! `flowfabric signals`

use clap::Args;
use flowfabric::{ExecutionId, Signal};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// How much of a payload the table shows.
const PAYLOAD_CHARS: usize = 60;

/// Show the signals that an execution has received, with who sent them and what they carry
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric signals 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric signals 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --json | jq .signals[0].payload")]
pub struct Signals {
    #[arg(value_name = "ID")]
    id: ExecutionId,
}

impl Signals {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let signals = fabric.run(self.id).signals().await?;
            if settings.json {
                let rows: Vec<Value> = signals.iter().map(value).collect();
                return view::document(&json!({ "id": self.id, "signals": rows }));
            }
            view::print_table(&table(&signals))
        })
        .await
    }
}

fn table(signals: &[Signal]) -> comfy_table::Table {
    let mut table = view::table(&["number", "name", "waitpoint", "from", "at", "payload"]);
    for it in signals {
        let text = |it: Option<&str>| it.unwrap_or_default().to_owned();
        table.add_row(vec![
            it.number.to_string(),
            text(it.name.as_deref()),
            it.waitpoint.map_or_else(String::new, |number| number.to_string()),
            text(it.source.as_deref()),
            view::time(it.at),
            view::cut(&view::payload_value(&it.payload).to_string(), PAYLOAD_CHARS),
        ]);
    }
    table
}

fn value(it: &Signal) -> Value {
    json!({
        "number": it.number,
        "name": it.name,
        "waitpoint": it.waitpoint,
        "source": it.source,
        "correlation": it.correlation,
        "at": view::time(it.at),
        "payload": view::payload_value(&it.payload),
    })
}
