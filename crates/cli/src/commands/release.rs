//! `flowfabric release`

use clap::Args;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;

/// Let held executions go on
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric release 0197f3a2-6f3e-7c41-9b1d-0242ac120002")]
pub struct Release {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    by: By,
}

impl Release {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: flowfabric::Fabric, id| self.by.apply(fabric.unhold(id)).await;
        operate::each(settings, &self.ids.ids, act, operate::changed).await
    }
}
