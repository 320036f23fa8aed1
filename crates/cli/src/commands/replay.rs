//! `flowfabric replay`

use clap::Args;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;

/// Run ended executions again, in a new series of attempts
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  flowfabric replay 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --cause 'the bank is back'"
)]
pub struct Replay {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    by: By,
}

impl Replay {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: flowfabric::Fabric, id| self.by.apply(fabric.replay(id)).await;
        operate::each(settings, &self.ids.ids, act, operate::changed).await
    }
}
