//! `flowfabric list`

use clap::Args;
use flowfabric::{Fabric, PageCursor};
use serde_json::json;

use super::wanted::Wanted;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Find executions, newest first
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric list --state failed --since 1h
  flowfabric list --lane billing --tag team.name=payments --limit 200
  flowfabric list --kind charge --error-text 'connection refused' --json
  flowfabric list --state waiting --state delayed --count")]
pub struct List {
    #[command(flatten)]
    filter: Wanted,
    /// How many are shown: 1 to 1,000
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Go on where another page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Oldest first
    #[arg(long)]
    oldest_first: bool,
    /// Only say how many there are
    #[arg(long)]
    count: bool,
}

impl List {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        if !(1..=1_000).contains(&self.limit) {
            return Err(Problem::invalid(format!("limit is {}; allowed are 1 to 1000", self.limit)));
        }
        session::with(settings, Open::Existing, Patience::Short, |fabric| self.show(fabric, settings.json))
            .await
    }

    async fn show(self, fabric: Fabric, json: bool) -> Result<(), Problem> {
        let filter = self.filter.filter();
        if self.count {
            let count = fabric.count(&filter).await?;
            let text = if count.more { format!("{} or more", count.count) } else { count.count.to_string() };
            return if json { view::document(&json!(count)) } else { view::line(&text) };
        }
        let mut list = fabric.list(filter).limit(self.limit);
        if self.oldest_first {
            list = list.oldest_first();
        }
        if let Some(cursor) = &self.cursor {
            list = list.cursor(cursor.parse::<PageCursor>()?);
        }
        let page = list.await?;
        if json {
            return view::document(&json!({
                "executions": page.executions.iter().map(view::execution_value).collect::<Vec<_>>(),
                "next": page.next.map(|it| it.to_string()),
                "previous": page.previous.map(|it| it.to_string()),
            }));
        }
        view::print_table(&view::executions_table(&page.executions, parse::now()))?;
        if let Some(next) = page.next {
            eprintln!("more: --cursor {next}");
        }
        Ok(())
    }
}
