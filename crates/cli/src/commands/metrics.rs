//! `flowfabric metrics`

use clap::Args;
use serde_json::json;

use crate::problem::Problem;
use crate::session;
use crate::settings::Settings;
use crate::view;

/// Print the figures of a server in the text that Prometheus reads
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric metrics --server http://127.0.0.1:7400
  flowfabric metrics --server http://127.0.0.1:7400 | grep queue_depth

A server with --auth wants a token of the role viewer that is not limited to namespaces. What each
figure says is in docs/operations.md.")]
pub struct Metrics {}

impl Metrics {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let Some(server) = session::probe(settings)? else {
            return Err(Problem::usage("only a server has metrics; this is a store")
                .hint("give --server, or count what is in the store with `flowfabric counts`"));
        };
        let text = server.metrics().await?;
        match settings.json {
            true => view::document(&json!({ "metrics": text })),
            false => view::line(text.trim_end()),
        }
    }
}
