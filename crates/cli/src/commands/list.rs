//! `flowfabric list`

use clap::Args;
use flowfabric::{
    Fabric, Filter, FlowId, InstanceId, Kind, LaneName, Ms, Namespace, PageCursor, PublicState, Reason,
    WorkerName,
};
use serde_json::json;

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

/// Everything that is given must hold.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
struct Wanted {
    /// In this state; may be given several times
    #[arg(long, value_parser = parse::state)]
    state: Vec<PublicState>,
    #[arg(long, value_name = "NAME")]
    lane: Option<LaneName>,
    #[arg(long, value_name = "NAME")]
    kind: Option<Kind>,
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Members of this flow
    #[arg(long, value_name = "ID")]
    flow: Option<FlowId>,
    /// With this tag; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::tag)]
    tag: Vec<(String, String)>,
    /// For this reason, such as retry_backoff or deadline_passed
    #[arg(long, value_parser = parse::reason)]
    reason: Option<Reason>,
    /// Whose last attempt failed with this code
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error_text: Option<String>,
    /// Whose last attempt was on this worker
    #[arg(long, value_name = "NAME")]
    worker: Option<WorkerName>,
    /// Whose last attempt was on this worker instance
    #[arg(long, value_name = "ID")]
    instance: Option<InstanceId>,
    /// Created at or after: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse::since, allow_hyphen_values = true)]
    since: Option<Ms>,
    /// Created before: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse::since, allow_hyphen_values = true)]
    until: Option<Ms>,
}

impl Wanted {
    fn filter(self) -> Filter {
        Filter {
            namespace: self.namespace,
            lane: self.lane,
            kind: self.kind,
            flow: self.flow,
            states: self.state,
            reason: self.reason,
            tags: self.tag,
            created_from: self.since,
            created_before: self.until,
            worker: self.worker,
            instance: self.instance,
            error_code: self.error_code,
            error_text: self.error_text,
        }
    }
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
