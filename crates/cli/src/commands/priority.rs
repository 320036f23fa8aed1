//! `flowfabric priority`

use clap::Args;
use flowfabric::{ExecutionId, Fabric};

use super::operate::{self, By};
use crate::problem::Problem;
use crate::settings::Settings;

/// Change the priority of an execution that has not ended
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric priority 0197f3a2-6f3e-7c41-9b1d-0242ac120002 50")]
pub struct Priority {
    #[arg(value_name = "ID")]
    id: ExecutionId,
    /// From -100 to 100; higher is sooner
    #[arg(value_name = "N", allow_negative_numbers = true)]
    priority: i64,
    #[command(flatten)]
    by: By,
}

impl Priority {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let fits = i8::try_from(self.priority).ok().filter(|it| (-100..=100).contains(it));
        let problem = || format!("priority is {}; allowed are -100 to 100", self.priority);
        let priority = fits.ok_or_else(|| Problem::invalid(problem()))?;
        let act = async |fabric: Fabric, id| self.by.apply(fabric.set_priority(id, priority)).await;
        operate::each(settings, &[self.id], act, operate::changed).await
    }
}
