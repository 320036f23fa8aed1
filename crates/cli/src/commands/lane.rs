//! `flowfabric lane`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use ff_core::lane::STRICT_STEP_MS;
use flowfabric::{Fabric, LaneName, LaneSettings};
use serde_json::{Value, json};

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// List, show, pause, resume, drain and set lanes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric lane list
  flowfabric lane get billing
  flowfabric lane pause billing --cause 'the bank is closed'
  flowfabric lane set billing --strict --retention 30d")]
pub struct Lane {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Show every lane that has work or settings of its own
    List,
    /// Show one lane; one that nobody has changed has the defaults
    #[command(after_help = "Example:\n  flowfabric lane get billing --json")]
    Get {
        #[arg(value_name = "LANE")]
        lane: LaneName,
    },
    /// Let nothing of a lane start; it still takes work
    Pause(Named),
    /// Let a lane go on, and take work again
    Resume(Named),
    /// Work off what is in a lane; it takes no new work
    Drain(Named),
    /// Change the settings of a lane; what is not given stays
    Set(Set),
}

#[derive(Args, Debug)]
struct Named {
    #[arg(value_name = "LANE")]
    lane: LaneName,
    #[command(flatten)]
    by: By,
}

#[derive(Args, Debug)]
struct Set {
    #[command(flatten)]
    named: Named,
    /// How much of a head start one point of priority is
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    step: Option<Duration>,
    /// Higher priorities always go first, however long the others have waited
    #[arg(long, conflicts_with = "step")]
    strict: bool,
    /// How long ended executions are kept
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    retention: Option<Duration>,
    /// Whether renewals of leases are events: true or false
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    renewed_events: Option<bool>,
}

impl Lane {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::OrCreate, Patience::Short, async |fabric| {
            let lane = match self.what {
                What::List => return list(&fabric, settings.json).await,
                What::Get { lane } => return get(&fabric, lane, settings.json).await,
                What::Pause(it) => it.by.apply(fabric.lane(&it.lane).pause()).await?,
                What::Resume(it) => it.by.apply(fabric.lane(&it.lane).resume()).await?,
                What::Drain(it) => it.by.apply(fabric.lane(&it.lane).drain()).await?,
                What::Set(it) => it.apply(&fabric).await?,
            };
            if settings.json {
                return view::document(&value(&lane));
            }
            view::line(&format!("{}  {}", lane.name, lane.mode))
        })
        .await
    }
}

impl Set {
    async fn apply(self, fabric: &Fabric) -> Result<Arc<flowfabric::Lane>, Problem> {
        let strict = self.strict.then(|| Duration::from_millis(STRICT_STEP_MS.unsigned_abs()));
        let settings = LaneSettings {
            mode: None,
            step: self.step.or(strict),
            retention: self.retention,
            renewed_events: self.renewed_events,
        };
        if settings == LaneSettings::default() {
            return Err(Problem::usage(
                "nothing to set; give --step, --strict, --retention or --renewed-events",
            ));
        }
        let Named { lane, by } = self.named;
        Ok(by.apply(fabric.lane(&lane).set(settings)).await?)
    }
}

/// A lane, and how much in it has not ended.
type Counted = (flowfabric::Lane, u64);

/// The lanes with settings of their own, and those that only have work.
async fn counted(fabric: &Fabric) -> Result<BTreeMap<LaneName, Counted>, Problem> {
    let mut lanes: BTreeMap<LaneName, Counted> = BTreeMap::new();
    for lane in fabric.lanes().await? {
        lanes.insert(lane.name.clone(), ((*lane).clone(), 0));
    }
    for (key, count) in fabric.counts().await? {
        let lane = || (flowfabric::Lane::default_of(key.lane.clone()), 0);
        let entry = lanes.entry(key.lane.clone()).or_insert_with(lane);
        entry.1 += if key.state.is_terminal() { 0 } else { count };
    }
    Ok(lanes)
}

async fn get(fabric: &Fabric, lane: LaneName, json: bool) -> Result<(), Problem> {
    let known = counted(fabric).await?.remove(&lane);
    let (lane, open) = known.unwrap_or_else(|| (flowfabric::Lane::default_of(lane), 0));
    if json {
        return view::document(&with_count(&(lane, open)));
    }
    let mut fields = vec![
        ("lane", lane.name.to_string()),
        ("mode", lane.mode.to_string()),
        ("open", open.to_string()),
        ("step", step(lane.step_ms)),
        ("retention", lane.retention_ms.map_or_else(|| "default".to_owned(), view::duration_text)),
        ("renewals", if lane.renewed_events { "are events" } else { "are no events" }.to_owned()),
    ];
    if lane.revision > 0 {
        fields.push(("changed", format!("{} by {}", view::time(lane.changed_at), lane.actor)));
        fields.push(("cause", lane.cause.to_string()));
    }
    view::print_fields(&fields)
}

fn with_count((lane, open): &Counted) -> Value {
    let mut value = value(lane);
    value["open"] = json!(open);
    value
}

async fn list(fabric: &Fabric, json: bool) -> Result<(), Problem> {
    let lanes = counted(fabric).await?;
    if json {
        let lanes: Vec<Value> = lanes.values().map(with_count).collect();
        return view::document(&json!({ "lanes": lanes }));
    }
    let mut table = view::table(&["lane", "mode", "open", "step", "retention", "changed", "by"]);
    for (lane, open) in lanes.values() {
        let changed = lane.revision > 0;
        let by = format!("{} {}", lane.actor, lane.cause);
        table.add_row(vec![
            lane.name.to_string(),
            lane.mode.to_string(),
            open.to_string(),
            step(lane.step_ms),
            lane.retention_ms.map_or_else(|| "default".to_owned(), view::duration_text),
            if changed { view::age(lane.changed_at, parse::now()) } else { "-".to_owned() },
            by.trim().to_owned(),
        ]);
    }
    view::print_table(&table)
}

fn step(ms: flowfabric::Ms) -> String {
    if ms >= STRICT_STEP_MS { "strict".to_owned() } else { view::duration_text(ms) }
}

fn value(lane: &flowfabric::Lane) -> Value {
    json!({
        "name": lane.name,
        "mode": lane.mode,
        "step_ms": lane.step_ms,
        "strict": lane.step_ms >= STRICT_STEP_MS,
        "retention_ms": lane.retention_ms,
        "renewed_events": lane.renewed_events,
        "changed_at": (lane.revision > 0).then(|| view::time(lane.changed_at)),
        "actor": lane.actor,
        "cause": lane.cause,
    })
}
