//! `flowfabric flow get`

use clap::Args;
use flowfabric::FlowId;
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// Show one flow: where it stands, and its nodes with what they wait for
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow get 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric flow get 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --after 100
  flowfabric flow get 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --json | jq .summary")]
pub struct Get {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// How many nodes are shown: 0 to 1,000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(0..=1_000))]
    limit: u16,
    /// Only nodes after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
}

impl Get {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let found = fabric.flow_run(self.id).describe(self.after, usize::from(self.limit)).await?;
            if settings.json {
                let mut value = flow_view::value(&found.flow);
                value["nodes"] = found.members.iter().map(|it| flow_view::member_value(it)).collect();
                value["next"] = json!(found.next);
                return view::document(&value);
            }
            let now = parse::now();
            view::print_fields(&flow_view::fields(&found.flow, now))?;
            if !found.members.is_empty() {
                view::line("")?;
                view::print_table(&flow_view::members_table(&found.members, now))?;
            }
            if let Some(next) = found.next {
                eprintln!("more: --after {next}");
            }
            Ok(())
        })
        .await
    }
}
