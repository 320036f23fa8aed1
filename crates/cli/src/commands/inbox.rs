//! `flowfabric inbox`

use clap::{Args, Subcommand};
use flowfabric::{DeadLetter, Letter};
use serde_json::{Value, json};

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// How many are read at once.
const PAGE: usize = 1_000;
/// How much of a reason the table shows.
const REASON_CHARS: usize = 80;

/// Submissions that applications wrote into the store themselves
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric inbox list --json
  flowfabric inbox get 17
  flowfabric inbox repost 17 --cause 'the lane takes work again'
  flowfabric inbox drop 18 --cause 'ordered twice'")]
pub struct Inbox {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Those that could not become executions, each with the reason
    List,
    /// Show one of them with all that was posted
    #[command(after_help = "Example:\n  flowfabric inbox get 17 --json")]
    Get {
        /// The number that `flowfabric inbox list` shows
        #[arg(value_name = "NUMBER")]
        number: u64,
    },
    /// Try one of them again, as it was posted
    #[command(after_help = "Example:\n  flowfabric inbox repost 17 --cause 'the lane takes work again'")]
    Repost(Named),
    /// Remove one of them for good
    #[command(after_help = "Example:\n  flowfabric inbox drop 18 --cause 'ordered twice'")]
    Drop(Named),
}

#[derive(Args, Debug)]
struct Named {
    /// The number that `flowfabric inbox list` shows
    #[arg(value_name = "NUMBER")]
    number: u64,
    #[command(flatten)]
    by: By,
}

impl Inbox {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        match self.what {
            What::List => list(settings).await,
            What::Get { number } => get(settings, number).await,
            What::Repost(it) => {
                it.done(settings, "reposted", async |letter| it.by.apply(letter.repost()).await).await
            }
            What::Drop(it) => {
                it.done(settings, "dropped", async |letter| it.by.apply(letter.drop()).await).await
            }
        }
    }
}

impl Named {
    async fn done(
        &self,
        settings: &Settings,
        what: &str,
        act: impl AsyncFnOnce(Letter) -> Result<(), flowfabric::Error>,
    ) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let letter = fabric.letter(self.number).await?;
            act(letter).await?;
            let number = self.number;
            match settings.json {
                true => view::document(&json!({ "number": number, what: true })),
                false => view::line(&format!("{number}  {what}")),
            }
        })
        .await
    }
}

async fn list(settings: &Settings) -> Result<(), Problem> {
    session::with(settings, Open::Existing, Patience::Short, async |fabric| {
        let mut letters: Vec<DeadLetter> = Vec::new();
        loop {
            let after = letters.last().map_or(0, |letter| letter.posted.number);
            let page = fabric.letters(after, PAGE).await?;
            let is_last = page.len() < PAGE;
            letters.extend(page);
            if is_last {
                return show(settings, &letters);
            }
        }
    })
    .await
}

async fn get(settings: &Settings, number: u64) -> Result<(), Problem> {
    session::with(settings, Open::Existing, Patience::Short, async |fabric| {
        let letter = fabric.letter(number).await?;
        let letter = letter.content();
        if settings.json {
            return view::document(&row(letter));
        }
        let DeadLetter { posted, reason, at } = letter;
        let mut fields = vec![
            ("number", posted.number.to_string()),
            ("kind", posted.shown_kind()),
            ("posted", view::time(posted.posted_at)),
            ("given up", view::time(*at)),
            ("reason", reason.to_string()),
        ];
        // What was not posted has its default.
        let said = row(letter);
        for name in ["id", "namespace", "lane", "key", "options", "input"] {
            let value = &said[name];
            if !value.is_null() {
                fields.push((name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
            }
        }
        view::print_fields(&fields)
    })
    .await
}

fn show(settings: &Settings, letters: &[DeadLetter]) -> Result<(), Problem> {
    if settings.json {
        let rows: Vec<Value> = letters.iter().map(row).collect();
        return view::document(&json!({ "dead_letters": rows }));
    }
    let mut table = view::table(&["number", "kind", "posted", "reason"]);
    for DeadLetter { posted, reason, .. } in letters {
        table.add_row(vec![
            posted.number.to_string(),
            posted.shown_kind(),
            view::time(posted.posted_at),
            view::cut(reason, REASON_CHARS),
        ]);
    }
    view::print_table(&table)
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
