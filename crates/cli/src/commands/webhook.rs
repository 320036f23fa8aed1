//! `flowfabric webhook`

use clap::{Args, Subcommand};
use flowfabric::{Fabric, Family, LaneName, Namespace, WebhookInfo, WebhookSettings};
use serde_json::json;

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// The addresses to which servers deliver events; a secret is shown once, when it is made
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric webhook set chat https://chat.example/hooks/7 --fact failed --fact expired
  flowfabric webhook list
  flowfabric webhook deliveries chat
  flowfabric webhook pause chat --cause 'they move'
  flowfabric webhook resume chat
  flowfabric webhook remove chat")]
pub struct Webhook {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    Set(Set),
    /// List all webhooks
    List,
    /// Show a webhook
    Get(Named),
    /// Deliver nothing until it is resumed; what happens meanwhile comes later
    Pause(Changed),
    /// Deliver again, and try at once what has failed
    Resume(Changed),
    /// Show the last deliveries to a webhook
    Deliveries(Named),
    /// Remove a webhook with what it remembers
    Remove(Changed),
}

/// Make a webhook, or change one: what is not said has its default
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric webhook set chat https://chat.example/hooks/7 --fact failed --fact expired
  flowfabric webhook set chat https://chat.example/hooks/8 --new-secret")]
struct Set {
    /// 1 to 64 lower-case letters, digits, '_' and '-'
    #[arg(value_name = "ID")]
    id: String,
    /// Where events are delivered
    #[arg(value_name = "URL")]
    url: String,
    /// Only events of this family; may be given several times
    #[arg(long, value_parser = parse::family)]
    family: Vec<Family>,
    /// Only this event, such as failed; may be given several times
    #[arg(long, value_name = "WORD")]
    fact: Vec<String>,
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    #[arg(long, value_name = "NAME")]
    lane: Option<LaneName>,
    /// Where a new one begins [default: with what happens from now on]
    #[arg(long, value_name = "CURSOR")]
    begin: Option<String>,
    /// Deliver nothing until it is resumed
    #[arg(long)]
    paused: bool,
    /// Give it a new secret
    #[arg(long)]
    new_secret: bool,
    #[command(flatten)]
    by: By,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric webhook deliveries chat --json")]
struct Named {
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  flowfabric webhook resume chat --cause 'they are back'")]
struct Changed {
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    by: By,
}

impl Webhook {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let open = if matches!(self.what, What::Set(_)) { Open::OrCreate } else { Open::Existing };
        let json = settings.json;
        session::with(settings, open, Patience::Short, async |fabric| match self.what {
            What::Set(it) => it.run(&fabric, json).await,
            What::List => {
                let webhooks = fabric.webhooks().await?;
                if json {
                    return view::document(&json!({ "webhooks": webhooks }));
                }
                view::print_table(&table(&webhooks))
            }
            What::Get(it) => {
                let webhook = fabric.webhook(&it.id).await?;
                if json { view::document(&json!(webhook)) } else { show(&webhook) }
            }
            What::Pause(it) => it.pause(&fabric, true, json).await,
            What::Resume(it) => it.pause(&fabric, false, json).await,
            What::Deliveries(it) => deliveries(&fabric.webhook(&it.id).await?, json),
            What::Remove(it) => {
                fabric.remove_webhook(&it.id, &it.by.actor(), &it.by.cause).await?;
                match json {
                    true => view::document(&json!({ "id": it.id, "removed": true })),
                    false => view::line(&format!("{} is removed", it.id)),
                }
            }
        })
        .await
    }
}

impl Set {
    async fn run(self, fabric: &Fabric, json: bool) -> Result<(), Problem> {
        let settings = WebhookSettings {
            url: self.url,
            families: self.family.iter().map(|it| it.word().to_owned()).collect(),
            namespace: self.namespace.map(|it| it.to_string()),
            lane: self.lane.map(|it| it.to_string()),
            facts: self.fact,
            paused: self.paused,
            begin: self.begin,
            new_secret: self.new_secret,
            actor: Some(self.by.actor()),
            cause: Some(self.by.cause),
        };
        let (webhook, secret) = fabric.set_webhook(&self.id, settings).await?;
        if json {
            return view::document(&json!({ "webhook": webhook, "secret": secret }));
        }
        match secret {
            Some(secret) => {
                eprintln!("webhook {}; its secret is shown only now:", webhook.id);
                view::line(&secret)
            }
            None => view::line(&format!("{} is changed", webhook.id)),
        }
    }
}

impl Changed {
    /// Everything else stays as it is.
    async fn pause(self, fabric: &Fabric, paused: bool, json: bool) -> Result<(), Problem> {
        let known = fabric.webhook(&self.id).await?;
        let settings = WebhookSettings {
            url: known.url,
            families: known.families,
            namespace: known.namespace,
            lane: known.lane,
            facts: known.facts,
            paused,
            begin: None,
            new_secret: false,
            actor: Some(self.by.actor()),
            cause: Some(self.by.cause),
        };
        let (webhook, _) = fabric.set_webhook(&self.id, settings).await?;
        let word = if paused { "paused" } else { "resumed" };
        if json { view::document(&json!(webhook)) } else { view::line(&format!("{} is {word}", webhook.id)) }
    }
}

/// How it goes, in a word.
fn state(it: &WebhookInfo) -> String {
    match (it.paused, it.failures) {
        (true, _) => "paused".to_owned(),
        (false, 0) => "ok".to_owned(),
        (false, failures) => format!("failed {failures} times"),
    }
}

fn table(webhooks: &[WebhookInfo]) -> comfy_table::Table {
    let mut table = view::table(&["id", "url", "state", "created", "by"]);
    for it in webhooks {
        let (url, created) = (view::cut(&it.url, 60), view::time(it.created_at.0));
        table.add_row(vec![it.id.clone(), url, state(it), created, it.created_by.clone()]);
    }
    table
}

fn show(it: &WebhookInfo) -> Result<(), Problem> {
    let all = |words: &[String]| if words.is_empty() { "all".to_owned() } else { words.join(", ") };
    let one = |word: &Option<String>| word.clone().unwrap_or_else(|| "all".to_owned());
    view::print_fields(&[
        ("id", it.id.clone()),
        ("url", it.url.clone()),
        ("state", state(it)),
        ("families", all(&it.families)),
        ("facts", all(&it.facts)),
        ("namespace", one(&it.namespace)),
        ("lane", one(&it.lane)),
        ("next try", it.next_at.map_or_else(|| "-".to_owned(), |at| view::time(at.0))),
        ("created", format!("{} by {}", view::time(it.created_at.0), it.created_by)),
    ])
}

fn deliveries(it: &WebhookInfo, json: bool) -> Result<(), Problem> {
    if json {
        return view::document(&json!({ "deliveries": it.deliveries }));
    }
    let mut table = view::table(&["number", "at", "events", "try", "status", "took", "error"]);
    for it in &it.deliveries {
        table.add_row(vec![
            it.number.to_string(),
            view::time(it.at.0),
            it.events.to_string(),
            it.attempt.to_string(),
            it.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
            view::short(it.took_ms),
            view::cut(it.error.as_deref().unwrap_or("-"), 60),
        ]);
    }
    view::print_table(&table)
}
