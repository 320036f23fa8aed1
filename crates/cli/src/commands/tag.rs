//! `flowfabric tag`

use clap::Args;
use flowfabric::{ExecutionId, Fabric};

use super::operate::{self, By};
use crate::parse;
use crate::problem::Problem;
use crate::settings::Settings;

/// Set and remove tags of an execution
#[derive(Args, Debug)]
#[command(after_help = "Example: set team.name, remove urgent
  flowfabric tag 0197f3a2-6f3e-7c41-9b1d-0242ac120002 team.name=payments urgent-")]
pub struct Tag {
    #[arg(value_name = "ID")]
    id: ExecutionId,
    /// key=value sets a tag, key- removes one
    #[arg(value_name = "CHANGE", required = true, value_parser = parse::tag_change)]
    changes: Vec<(String, Option<String>)>,
    #[command(flatten)]
    by: By,
}

impl Tag {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let changes = || self.changes.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
        let act = async |fabric: Fabric, id| self.by.apply(fabric.tag(id, changes())).await;
        operate::each(settings, &[self.id], act, operate::changed).await
    }
}
