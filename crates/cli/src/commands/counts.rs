//! `flowfabric counts`

use clap::Args;
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// Count all executions by namespace, lane, kind and state
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric counts --json")]
pub struct Counts {}

impl Counts {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let mut counts = fabric.counts().await?;
            counts.sort();
            let total: u64 = counts.iter().map(|(_, count)| count).sum();
            if settings.json {
                let rows: Vec<_> = counts.iter().map(|(key, count)| row(key, *count)).collect();
                return view::document(&json!({ "total": total, "counts": rows }));
            }
            let mut table = view::table(&["namespace", "lane", "kind", "state", "count"]);
            for (key, count) in &counts {
                table.add_row(vec![
                    key.namespace.to_string(),
                    key.lane.to_string(),
                    key.kind.to_string(),
                    key.state.to_string(),
                    count.to_string(),
                ]);
            }
            table.add_row(vec![
                "total".to_owned(),
                String::new(),
                String::new(),
                String::new(),
                total.to_string(),
            ]);
            view::print_table(&table)
        })
        .await
    }
}

fn row(key: &flowfabric::CountKey, count: u64) -> serde_json::Value {
    let (namespace, lane, kind) = (&key.namespace, &key.lane, &key.kind);
    json!({ "namespace": namespace, "lane": lane, "kind": kind, "state": key.state, "count": count })
}
