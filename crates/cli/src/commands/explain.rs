//! `flowfabric explain`

use clap::Args;
use flowfabric::ExecutionId;
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// Say why an execution does or does not run: every gate it stands before, with its values
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric explain 0197f3a2-6f3e-7c41-9b1d-0242ac120002")]
pub struct Explain {
    #[arg(value_name = "ID")]
    id: ExecutionId,
}

impl Explain {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let why = fabric.explain(self.id).await?;
            if settings.json {
                let (state, reason) = (why.state, &why.reason);
                let value = json!({ "id": self.id, "state": state, "reason": reason, "gates": why.gates });
                return view::document(&value);
            }
            view::line(&format!("{}  {} ({})\n", self.id, why.state, why.reason))?;
            let mut table = view::table(&["gate", "blocks", "detail"]);
            for gate in &why.gates {
                let blocks = if gate.blocking { "yes" } else { "" };
                table.add_row(vec![
                    gate.gate.to_string(),
                    blocks.to_owned(),
                    view::readable_times(&gate.detail),
                ]);
            }
            view::print_table(&table)
        })
        .await
    }
}
