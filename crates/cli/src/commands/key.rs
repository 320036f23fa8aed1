//! `flowfabric key`

use std::time::Duration;

use clap::{Args, Subcommand};
use flowfabric::KeyInfo;
use serde_json::{Value, json};

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// The keys that waitpoint tokens are signed with; their secrets are never shown
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric key list
  flowfabric key rotate --grace 24h --cause quarterly
  flowfabric key rotate --grace 0 --cause 'a token has leaked'")]
pub struct Key {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the keys
    List,
    /// Make a new key; tokens of older keys stay good for the grace
    #[command(after_help = "Example:\n  flowfabric key rotate --grace 24h --cause quarterly")]
    Rotate(Rotate),
}

#[derive(Args, Debug)]
struct Rotate {
    /// How long tokens of older keys stay good
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "24h")]
    #[arg(allow_hyphen_values = true)]
    grace: Duration,
    #[command(flatten)]
    by: By,
}

impl Key {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| match self.what {
            What::List => {
                let keys = fabric.keys().await?;
                if settings.json {
                    let rows: Vec<Value> = keys.iter().map(value).collect();
                    return view::document(&json!({ "keys": rows }));
                }
                let mut table = view::table(&["key", "created", "retires"]);
                for key in &keys {
                    let retires = key.retires_at.map_or_else(|| "-".to_owned(), view::time);
                    table.add_row(vec![key.id.to_string(), view::time(key.created_at), retires]);
                }
                view::print_table(&table)
            }
            What::Rotate(it) => {
                let key = fabric.rotate_key(it.grace, &it.by.actor(), &it.by.cause).await?;
                match settings.json {
                    true => view::document(&value(&key)),
                    false => view::line(&format!("key {} signs from now on", key.id)),
                }
            }
        })
        .await
    }
}

fn value(key: &KeyInfo) -> Value {
    json!({
        "key": key.id,
        "created_at": view::time(key.created_at),
        "retires_at": key.retires_at.map(view::time),
    })
}
