//! `flowfabric flow list`

use clap::Args;
use flowfabric::{Fabric, FlowFilter, FlowState, Kind, Ms, Namespace, PageCursor};
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// Find flows, newest first
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow list --state running --state blocked
  flowfabric flow list --kind etl --tag team.name=data --since 1d
  flowfabric flow list --limit 200 --json")]
pub struct List {
    #[command(flatten)]
    filter: Wanted,
    /// How many are shown: 1 to 1,000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Go on where another page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Oldest first
    #[arg(long)]
    oldest_first: bool,
}

/// Everything that is given must hold.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
struct Wanted {
    /// In this state; may be given several times
    #[arg(long, value_parser = parse::flow_state)]
    state: Vec<FlowState>,
    #[arg(long, value_name = "NAME")]
    kind: Option<Kind>,
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// With this tag; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::tag)]
    tag: Vec<(String, String)>,
    /// Created at or after: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse::since, allow_hyphen_values = true)]
    since: Option<Ms>,
    /// Created before: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse::since, allow_hyphen_values = true)]
    until: Option<Ms>,
}

impl Wanted {
    fn filter(self) -> FlowFilter {
        FlowFilter {
            namespace: self.namespace,
            kind: self.kind,
            states: self.state,
            tags: self.tag,
            created_from: self.since,
            created_before: self.until,
        }
    }
}

impl List {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, |fabric| self.show(fabric, settings.json))
            .await
    }

    async fn show(self, fabric: Fabric, json: bool) -> Result<(), Problem> {
        let mut list = fabric.list_flows(self.filter.filter()).limit(usize::from(self.limit));
        if self.oldest_first {
            list = list.oldest_first();
        }
        if let Some(cursor) = &self.cursor {
            list = list.cursor(cursor.parse::<PageCursor>()?);
        }
        let page = list.await?;
        if json {
            return view::document(&json!({
                "flows": page.flows.iter().map(flow_view::value).collect::<Vec<_>>(),
                "next": page.next.map(|it| it.to_string()),
                "previous": page.previous.map(|it| it.to_string()),
            }));
        }
        view::print_table(&flow_view::flows_table(&page.flows, parse::now()))?;
        if let Some(next) = page.next {
            eprintln!("more: --cursor {next}");
        }
        Ok(())
    }
}
