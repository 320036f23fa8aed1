//! `flowfabric remove`

use clap::Args;
use serde_json::json;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;

/// Remove every trace of ended executions
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric remove 0197f3a2-6f3e-7c41-9b1d-0242ac120002")]
pub struct Remove {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    by: By,
}

impl Remove {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: flowfabric::Fabric, id| self.by.apply(fabric.remove(id)).await;
        let tell = |id, (): &()| (json!({ "id": id, "removed": true }), format!("{id}  removed"));
        operate::each(settings, &self.ids.ids, act, tell).await
    }
}
