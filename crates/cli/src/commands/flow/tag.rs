//! `flowfabric flow tag`

use clap::Args;
use flowfabric::FlowId;

use super::super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// Set and remove tags of a flow
#[derive(Args, Debug)]
#[command(after_help = "Example:
  flowfabric flow tag 0197f3a2-6f3e-7c41-9b1d-0242ac120002 team.name=data draft-")]
pub struct Tag {
    #[arg(value_name = "ID")]
    id: FlowId,
    /// key=value sets a tag, key- removes it
    #[arg(value_name = "TAG", required = true, value_parser = parse::tag_change)]
    tags: Vec<(String, Option<String>)>,
    #[command(flatten)]
    by: By,
}

impl Tag {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let tags = self.tags.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
            let flow = self.by.apply(fabric.tag_flow(self.id, tags)).await?;
            if settings.json {
                return view::document(&flow_view::value(&flow));
            }
            let tags = flow.live.tags.iter().map(|(key, value)| format!("{key}={value}"));
            view::line(&format!("{}  {}", self.id, tags.collect::<Vec<_>>().join(" ")))
        })
        .await
    }
}
