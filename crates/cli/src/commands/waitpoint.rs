//! `flowfabric waitpoint`

use std::time::Duration;

use clap::{Args, Subcommand};
use flowfabric::{
    EventFilter, ExecutionId, Fabric, Fact, Family, Kind, LaneName, Namespace, Reason, Start, WaitpointEntry,
    WaitpointId, WaitpointList, WaitpointPage,
};
use serde_json::{Value, json};

use super::operate::By;
use super::watch::sleep;
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Open waitpoints: what waits for somebody outside
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric waitpoint list --name approval
  flowfabric waitpoint list --reason waiting_for_approval --json
  flowfabric waitpoint show 0197f3a2-6f3e-7c41-9b1d-0242ac120002-1
  flowfabric waitpoint show 0197f3a2-6f3e-7c41-9b1d-0242ac120002-1 --token --cause 'asked again'")]
pub struct Waitpoint {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List and search open waitpoints, newest first
    #[command(after_help = "Examples:
  flowfabric waitpoint list --kind refund --limit 20
  flowfabric waitpoint list --name approval --wait --timeout 1h")]
    List(List),
    /// Show one open waitpoint, and its token if that is asked for
    #[command(after_help = "Examples:
  flowfabric waitpoint show 0197f3a2-6f3e-7c41-9b1d-0242ac120002-1
  flowfabric waitpoint show 0197f3a2-6f3e-7c41-9b1d-0242ac120002-1 --token --cause 'asked again'

Making a token is an event with who did it and why; looking at a waitpoint is none.")]
    Show(Show),
}

#[derive(Args, Debug)]
struct List {
    /// Only waitpoints of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long, value_name = "NAME")]
    kind: Option<Kind>,
    #[arg(long, value_name = "NAME")]
    lane: Option<LaneName>,
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Only those that an execution waits for, for this reason
    #[arg(long, value_name = "REASON", value_parser = parse::reason)]
    reason: Option<Reason>,
    #[arg(long, value_name = "ID")]
    execution: Option<ExecutionId>,
    /// Oldest first
    #[arg(long)]
    oldest_first: bool,
    /// How many at most, up to 1000
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// The page after this one
    #[arg(long, value_name = "WAITPOINT")]
    after: Option<WaitpointId>,
    /// Wait until there is one
    #[arg(long)]
    wait: bool,
    /// How long to wait; then the exit code is 124
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    #[arg(requires = "wait")]
    timeout: Option<Duration>,
}

#[derive(Args, Debug)]
struct Show {
    #[arg(value_name = "WAITPOINT")]
    id: WaitpointId,
    /// Print its token, and nothing else without --json. Whoever has it may signal here
    #[arg(long)]
    token: bool,
    #[command(flatten)]
    by: By,
}

impl Waitpoint {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| match self.what {
            What::List(it) => it.show(&fabric, settings.json).await,
            What::Show(it) => it.show(&fabric, settings.json).await,
        })
        .await
    }
}

impl List {
    async fn show(self, fabric: &Fabric, json: bool) -> Result<(), Problem> {
        let mut list = fabric.waitpoints().limit(self.limit);
        if self.oldest_first {
            list = list.oldest_first();
        }
        let given =
            |list: WaitpointList, text: Option<&str>, put: fn(WaitpointList, &str) -> WaitpointList| {
                text.map_or_else(|| list.clone(), |text| put(list.clone(), text))
            };
        list = given(list, self.name.as_deref(), WaitpointList::name);
        list = given(list, self.kind.as_deref(), WaitpointList::kind);
        list = given(list, self.lane.as_deref(), WaitpointList::lane);
        list = given(list, self.namespace.as_deref(), WaitpointList::namespace);
        if let Some(reason) = self.reason {
            list = list.reason(reason);
        }
        if let Some(id) = self.execution {
            list = list.execution(id);
        }
        if let Some(after) = self.after {
            list = list.after(after);
        }
        // A waitpoint that is opened is news of one family, one that somebody begins to wait for is of another.
        let events = EventFilter {
            families: vec![Family::Signal, Family::Execution],
            namespace: self.namespace,
            lane: self.lane,
            execution: self.execution,
            ..EventFilter::default()
        };
        let page = match self.wait {
            false => list.await?,
            true => tokio::select! {
                page = first(fabric, list, events) => page?,
                () = sleep(self.timeout) => return Err(Problem::timeout("no waitpoint was opened in time")),
                // Whoever goes on only if there is one must not go on now.
                () = flowfabric::asked_to_end() => return Err(Problem::told(Exit::NotCompleted)),
            },
        };
        if json {
            let rows: Vec<Value> = page.waitpoints.iter().map(value).collect();
            return view::document(&json!({ "waitpoints": rows, "next": page.next }));
        }
        let mut table = view::table(&["waitpoint", "name", "kind", "lane", "reason", "opened", "expires"]);
        let now = parse::now();
        for it in &page.waitpoints {
            table.add_row(vec![
                it.id.to_string(),
                it.name.as_deref().unwrap_or("-").to_owned(),
                it.kind.to_string(),
                it.lane.to_string(),
                it.reason.map_or("-", Reason::word).to_owned(),
                view::age(it.opened_at, now),
                it.expires_at.map_or_else(|| "-".to_owned(), |at| view::age(at, now)),
            ]);
        }
        view::print_table(&table)?;
        match page.next {
            Some(next) => view::line(&format!("\nmore: --after {next}")),
            None => Ok(()),
        }
    }
}

/// The first page that holds anything.
async fn first(fabric: &Fabric, list: WaitpointList, filter: EventFilter) -> Result<WaitpointPage, Problem> {
    // Listening starts before looking, so that nothing falls between.
    let mut events = fabric.events(filter, Start::Now).await?;
    loop {
        let page = list.clone().await?;
        if !page.waitpoints.is_empty() {
            return Ok(page);
        }
        while !matches!(
            events.next().await?.event.fact,
            Fact::WaitpointOpened { .. } | Fact::Suspended { .. }
        ) {}
    }
}

impl Show {
    async fn show(self, fabric: &Fabric, json: bool) -> Result<(), Problem> {
        if self.token {
            let opened = fabric.issue_token_as(self.id, &self.by.actor(), &self.by.cause).await?;
            let token = opened.token.reveal();
            return match json {
                true => view::document(&json!({
                    "waitpoint": opened.id,
                    "expires_at": opened.expires_at.map(view::time),
                    "token": token,
                })),
                false => view::line(token),
            };
        }
        if self.by.who.actor.is_some() || !self.by.cause.is_empty() {
            return Err(Problem::usage("--actor and --cause go with --token; looking keeps neither"));
        }
        let id = self.id;
        let execution = fabric.get(id.execution).await?;
        let open = execution.mailbox().and_then(|mailbox| mailbox.waitpoint(id.number));
        let entry = ff_core::workspace::waitpoint_entries(&execution).find(|it| it.id == id);
        let (Some(open), Some(entry)) = (open, entry) else {
            return Err(Problem::not_found(format!("there is no open waitpoint {id}")));
        };
        if json {
            let mut value = value(&entry);
            value["approvers"] = json!(open.approvers);
            value["requester"] = json!(open.requester);
            value["distinct_sources"] = json!(open.distinct_sources);
            value["known_sources"] = json!(open.known_sources);
            return view::document(&value);
        }
        let now = parse::now();
        let mut fields = vec![
            ("waitpoint", id.to_string()),
            ("name", entry.name.as_deref().unwrap_or("-").to_owned()),
            ("kind", entry.kind.to_string()),
            ("lane", entry.lane.to_string()),
            ("reason", entry.reason.map_or("-", Reason::word).to_owned()),
            ("opened", view::time_and_age(entry.opened_at, now)),
        ];
        fields.extend(entry.expires_at.map(|at| ("expires", view::time_and_age(at, now))));
        fields.extend(entry.digest.map(|digest| ("action", digest.to_string())));
        if !open.approvers.is_empty() {
            fields.push(("approvers", open.approvers.join(", ")));
        }
        fields.extend(open.requester.as_ref().map(|it| ("requester", it.to_string())));
        if open.distinct_sources {
            fields.push(("sources", "each counts once".to_owned()));
        }
        if open.known_sources {
            fields.push(("token", "needs an access token beside it".to_owned()));
        }
        view::print_fields(&fields)
    }
}

fn value(it: &WaitpointEntry) -> Value {
    json!({
        "waitpoint": it.id,
        "execution": it.id.execution,
        "name": it.name,
        "namespace": it.namespace,
        "kind": it.kind,
        "lane": it.lane,
        "reason": it.reason,
        "opened_at": view::time(it.opened_at),
        "expires_at": it.expires_at.map(view::time),
        "action": it.digest,
    })
}
