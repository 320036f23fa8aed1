//! `flowfabric flow cancel`

use std::time::Duration;

use clap::Args;
use flowfabric::{CancelPolicy, FlowId};
use serde_json::json;

use super::super::operate::By;
use super::super::watch::sleep;
use super::late;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// Cancel a flow and, by its policy, its members
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --cause 'wrong file'
  flowfabric flow cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --policy cancel_pending --wait
  flowfabric flow cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --policy flow_only --json | jq .members

Policies:
  cancel_all      every member that has not ended
  cancel_pending  the members that have not started; those that run go on
  flow_only       no member; the flow takes nothing more and ends with the last of them")]
pub struct Cancel {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// What becomes of its members: cancel_all, cancel_pending or flow_only
    #[arg(long, value_parser = parse::cancel_policy, default_value = "cancel_all")]
    policy: CancelPolicy,
    /// Wait until the last member has ended
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, requires = "wait")]
    #[arg(allow_hyphen_values = true)]
    timeout: Option<Duration>,
    #[command(flatten)]
    by: By,
}

impl Cancel {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            let cancel = |after| self.by.apply(run.cancel(self.policy)).members_after(after);
            let mut done = cancel(0).await?;
            let mut members = done.members;
            while let Some(next) = done.next {
                done = cancel(next).await?;
                members.extend(done.members);
            }
            let mut flow = done.flow;
            if self.wait {
                flow = tokio::select! {
                    ended = run.wait() => ended?,
                    () = sleep(self.timeout) => return Err(late(self.id)),
                };
            }
            if settings.json {
                let mut value = flow_view::value(&flow);
                value["members"] = json!(members);
                return view::document(&value);
            }
            view::line(&format!("{}  {}  {}", self.id, flow.state(), flow_view::summary(&flow)))
        })
        .await
    }
}
