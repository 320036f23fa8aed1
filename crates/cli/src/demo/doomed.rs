//! The worker that the demonstration kills: a process of its own, because only that can be lost for real.

use clap::Args;
use flowfabric::{Context, TaskFailure, Worker};

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;

pub const NAME: &str = "doomed";
pub const LANE: &str = "fragile";
pub const KIND: &str = "transfer";

/// Takes transfers and never ends them
#[derive(Args, Debug)]
pub struct DoomedWorker {}

impl DoomedWorker {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Long, async |fabric| {
            let worker = Worker::new(&fabric).name(NAME).lane(LANE).on(KIND, halfway);
            worker.run().await?;
            Ok(())
        })
        .await
    }
}

/// The step that must happen once: its result is the process that did it.
pub async fn debit(ctx: &Context) -> Result<u32, TaskFailure> {
    ctx.step("debit", async || Ok(std::process::id())).await
}

async fn halfway(ctx: Context, _: serde_json::Value) -> Result<(), TaskFailure> {
    debit(&ctx).await?;
    ctx.progress(50, "halfway there").await;
    std::future::pending().await
}
