//! `flowfabric bulk`

mod begin;
mod look;

use clap::{Args, Subcommand};
use flowfabric::BulkInfo;

use super::operate::By;
use crate::problem::Problem;
use crate::settings::Settings;

/// Do the same to many executions: those of a list, or those that match
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric bulk cancel --kind charge --state waiting --dry-run
  flowfabric bulk cancel --kind charge --state waiting --rate 50 --cause 'the bank is closed'
  flowfabric bulk replay --state failed --since 1h --error-code timeout
  flowfabric bulk priority 50 --lane billing
  flowfabric bulk list
  flowfabric bulk stop bulk_1f0c9d2a77b1e0c4

It reaches what matches and was there when it began. On a store, this process carries it out; what is left when it
ends is done by a server on that store, or by `flowfabric bulk get ID --wait`.")]
pub struct Bulk {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Cancel(begin::Cancel),
    Replay(begin::Replay),
    Priority(begin::Priority),
    /// List those that run and the last hundred that have ended
    List,
    Get(look::Get),
    Stop(look::Stop),
}

impl Bulk {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        match self.what {
            What::Cancel(it) => it.run(settings).await,
            What::Replay(it) => it.run(settings).await,
            What::Priority(it) => it.run(settings).await,
            What::List => look::list(settings).await,
            What::Get(it) => it.run(settings).await,
            What::Stop(it) => it.run(settings).await,
        }
    }
}

/// How far an operation has come, on one line.
fn summary(bulk: &BulkInfo) -> String {
    let skipped: u64 = bulk.skipped.values().sum();
    let reasons: Vec<String> = bulk.skipped.iter().map(|(code, count)| format!("{count} {code}")).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    let BulkInfo { id, state, verb, done, failed, .. } = bulk;
    format!("{id}  {state}  {verb}: {done} done, {skipped} skipped{reasons}, {failed} failed")
}
