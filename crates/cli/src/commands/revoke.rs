//! `flowfabric revoke`

use clap::Args;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;

/// Take running executions away from their workers; no attempt is spent
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  flowfabric revoke 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --cause 'it hangs'"
)]
pub struct Revoke {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    by: By,
}

impl Revoke {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: flowfabric::Fabric, id| self.by.apply(fabric.revoke(id)).await;
        operate::each(settings, &self.ids.ids, act, operate::changed).await
    }
}
