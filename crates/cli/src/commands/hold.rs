//! `flowfabric hold`

use clap::Args;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;

/// Keep executions from running until they are released
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  flowfabric hold 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --cause 'the bank is closed'"
)]
pub struct Hold {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    by: By,
}

impl Hold {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: flowfabric::Fabric, id| self.by.apply(fabric.hold(id)).await;
        operate::each(settings, &self.ids.ids, act, operate::changed).await
    }
}
