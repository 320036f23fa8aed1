//! `flowfabric cancel`

use std::time::Duration;

use clap::Args;
use flowfabric::{Cancelled, Fabric};
use serde_json::json;

use super::operate::{self, By, Ids};
use crate::problem::Problem;
use crate::settings::Settings;
use crate::{parse, view};

/// Cancel executions: at once, or with a grace in which a worker may still end by itself
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric cancel 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --grace 10s --cause 'ordered twice'")]
pub struct Cancel {
    #[command(flatten)]
    ids: Ids,
    /// How long a worker that runs it may take to end by itself
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    grace: Option<Duration>,
    #[command(flatten)]
    by: By,
}

impl Cancel {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let act = async |fabric: Fabric, id| {
            let operation = self.by.apply(fabric.cancel(id));
            match self.grace {
                Some(grace) => operation.grace(grace).await,
                None => operation.await,
            }
        };
        let tell = |id, done: &Cancelled| {
            let value = json!({ "id": id, "state": done.state, "cut_at": done.cut_at.map(view::time) });
            let text = match done.cut_at {
                Some(at) => {
                    format!("{id}  asked its worker to stop; cut off {}", view::age(at, parse::now()))
                }
                None => format!("{id}  {}", done.state),
            };
            (value, text)
        };
        operate::each(settings, &self.ids.ids, act, tell).await
    }
}
