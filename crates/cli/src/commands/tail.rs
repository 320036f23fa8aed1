//! `flowfabric tail`

use std::time::Duration;

use clap::Args;
use flowfabric::{
    Event, EventFilter, Events, ExecutionId, Fabric, Family, FlowId, LaneName, Namespace, Start,
};
use serde_json::{Value, json};

use super::watch::sleep;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Show events as they happen; prints the cursor to go on from when it ends
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric tail
  flowfabric tail --from beginning --limit 100 --json
  flowfabric tail --family operator --from 1h
  flowfabric tail --from c1.5b9c6f5d6f0e4d0b8f6d3c9f1a2b3c4d.1f")]
pub struct Tail {
    /// Only this family: execution, lease, flow, signal or operator; may be given several times
    #[arg(long, value_parser = parse::family)]
    family: Vec<Family>,
    #[arg(long, value_name = "NAME")]
    lane: Option<LaneName>,
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    #[arg(long, value_name = "ID")]
    execution: Option<ExecutionId>,
    /// Only events of this flow and of its members
    #[arg(long, value_name = "ID")]
    flow: Option<FlowId>,
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::tag)]
    tag: Option<(String, String)>,
    /// Where to start: beginning, now, a time, how long ago, or a cursor
    #[arg(long, value_name = "PLACE", default_value = "now", value_parser = start, allow_hyphen_values = true)]
    from: Start,
    /// End after so many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// End after so long
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
}

fn start(text: &str) -> Result<Start, String> {
    match text {
        "now" => Ok(Start::Now),
        "beginning" => Ok(Start::Beginning),
        text if text.starts_with("c1.") => text.parse().map(Start::After).map_err(|error| format!("{error}")),
        text => parse::since(text)
            .map(Start::At)
            .map_err(|_| "allowed are beginning, now, a time such as 2026-01-31T12:00:00Z, how long ago such as 1h, and a cursor".to_owned()),
    }
}

impl Tail {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::OrCreate, Patience::Short, |fabric| self.follow(fabric, settings.json))
            .await
    }

    async fn follow(self, fabric: Fabric, json: bool) -> Result<(), Problem> {
        let filter = EventFilter {
            families: self.family,
            namespace: self.namespace,
            lane: self.lane,
            execution: self.execution,
            flow: self.flow,
            tag: self.tag,
        };
        let mut events = fabric.events(filter, self.from).await?;
        let end = tokio::select! {
            end = show(&mut events, self.limit, json) => end,
            () = sleep(self.timeout) => Ok(()),
            () = flowfabric::asked_to_end() => Ok(()),
        };
        if json {
            eprintln!("{}", json!({ "cursor": events.cursor().to_string() }));
        } else {
            eprintln!("cursor: {}", events.cursor());
        }
        end
    }
}

async fn show(events: &mut Events, limit: Option<u64>, json: bool) -> Result<(), Problem> {
    let mut shown = 0;
    while limit.is_none_or(|limit| shown < limit) {
        let seen = events.next().await?;
        if json {
            let mut value = json!(seen.event);
            value["at"] = json!(view::time(seen.event.at));
            value["family"] = json!(seen.event.fact.family());
            value["cursor"] = json!(seen.cursor.to_string());
            view::json_line(&value)?;
        } else {
            view::line(&event_line(&seen.event))?;
        }
        shown += 1;
    }
    Ok(())
}

fn event_line(event: &Event) -> String {
    let id = event.execution.map_or_else(|| "-".repeat(36), |id| id.to_string());
    let lane = event.lane.as_ref().map_or("-", |lane| lane.as_str());
    let mut words = Vec::new();
    if let Value::Object(fact) = json!(event.fact) {
        for (key, value) in fact.iter().filter(|(key, _)| *key != "event") {
            collect_words(&mut words, key, value);
        }
    }
    let text =
        format!("{}  {id}  {lane}  {:17}  {}", view::time(event.at), event.fact.word(), words.join(" "));
    text.trim_end().to_owned()
}

/// `key=value` for everything inside, however deep.
fn collect_words(words: &mut Vec<String>, key: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(inner) => inner.iter().for_each(|(key, value)| collect_words(words, key, value)),
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => words.push(format!("{key}={}", view::cut(text, 80))),
        value => words.push(format!("{key}={}", view::readable_times(&value.to_string()))),
    }
}
