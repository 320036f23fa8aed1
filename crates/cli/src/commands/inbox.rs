//! `flowfabric inbox`

use clap::{Args, Subcommand};
use ff_core::PartitionId;
use ff_core::inbox::DeadLetter;
use ff_engine::doctor;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::session;
use crate::settings::Settings;
use crate::view;

/// How much of a reason the table shows.
const REASON_CHARS: usize = 80;

/// Submissions that applications wrote into the store themselves
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric inbox list --json")]
pub struct Inbox {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Those that could not become executions, each with the reason
    List,
}

impl Inbox {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let What::List = self.what;
        let store = session::open_store(settings).await?;
        let mut letters = Vec::new();
        for partition in (0..store.info().partitions).map(PartitionId) {
            letters.extend(doctor::dead_letters(&*store, partition).await?);
        }
        store.close().await;
        letters.sort_by_key(|letter| letter.posted.number);
        if settings.json {
            let rows: Vec<Value> = letters.iter().map(row).collect();
            return view::document(&json!({ "dead_letters": rows }));
        }
        let mut table = view::table(&["number", "kind", "posted", "reason"]);
        for DeadLetter { posted, reason, .. } in &letters {
            table.add_row(vec![
                posted.number.to_string(),
                posted.shown_kind(),
                view::time(posted.posted_at),
                view::cut(reason, REASON_CHARS),
            ]);
        }
        view::print_table(&table)
    }
}

fn row(letter: &DeadLetter) -> Value {
    let DeadLetter { posted, reason, at } = letter;
    json!({
        "number": posted.number,
        "id": posted.id,
        "kind": posted.kind,
        "namespace": posted.namespace,
        "lane": posted.lane,
        "key": posted.key,
        "options": posted.options,
        "input": view::payload_value(&posted.input),
        "posted_at": view::time(posted.posted_at),
        "given_up_at": view::time(*at),
        "reason": reason,
    })
}
