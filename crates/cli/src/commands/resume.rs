//! `flowfabric resume`

use clap::Args;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;

/// End the suspension of executions without what they wait for; the same attempt goes on
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  flowfabric resume 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --cause 'approved by telephone'"
)]
pub struct Resume {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    by: By,
}

impl Resume {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: flowfabric::Fabric, id| self.by.apply(fabric.resume(id)).await;
        operate::each(settings, &self.ids.ids, act, operate::changed).await
    }
}
