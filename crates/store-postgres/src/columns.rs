//! The changes of several commits as columns: the arguments of the commit function.

use std::borrow::Cow;
use std::marker::PhantomData;

use bytes::{BufMut as _, BytesMut};
use ff_core::agenda::{AgendaEntry, AgendaKey, Subject};
use ff_core::change::{Changes, ExecutionChange};
use ff_core::class::Class;
use ff_core::event::Event;
use ff_core::execution::Execution;
use ff_core::inbox::Fate;
use ff_core::ready::ReadyEntry;
use ff_store::Commit;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::keys::{KEPT_MS, KEPT_VERSIONS, Packed, pack};
use crate::mail::MailColumns;

/// Old commit rows go in steps: every so many commits, at most twice as many rows.
const PRUNE_EVERY: u64 = 64;
const PRUNE_ROWS: u64 = 128;
/// Counters that fell to zero are rare; their rows may stay for a while.
const ZEROS_EVERY: u64 = 8_192;
/// Most readers want a hundred events at a time; a larger pack would be parsed many times over.
const EVENTS_PER_ROW: usize = 256;

type Text<'a> = Cow<'a, str>;

/// An argument of a statement with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

macro_rules! columns {
    ($($(#[$doc:meta])* $group:ident: $Group:ident { $($name:ident: $rust:ty, $sql:ident;)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(crate) struct $Group<'a> {
                $(pub(crate) $name: Vec<$rust>,)+
                lifetime: PhantomData<&'a ()>,
            }

            impl Default for $Group<'_> {
                fn default() -> Self {
                    Self { $($name: Vec::new(),)+ lifetime: PhantomData }
                }
            }

            impl ToSql for $Group<'_> {
                fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
                    let columns: &[Param<'_>] = &[$((&self.$name, Type::$sql)),+];
                    match self.partition.is_empty() {
                        true => Ok(IsNull::Yes),
                        false => row(columns, out),
                    }
                }

                fn accepts(_: &Type) -> bool {
                    true
                }

                to_sql_checked!();
            }
        )+

        /// One row of lists for each argument, in the order in which the function takes them.
        #[derive(Debug, Default)]
        pub(crate) struct Columns<'a> {
            $(pub(crate) $group: $Group<'a>,)+
            ml: MailColumns<'a>,
            rare: Option<String>,
            /// What is written to the registry, which few commits do.
            pub(crate) registry: Option<String>,
        }

        impl Columns<'_> {
            /// Without the first two arguments, which are not lists. The server knows the types of the rows.
            pub(crate) fn params(&self) -> Vec<Param<'_>> {
                vec![$((&self.$group, Type::UNKNOWN),)+ (&self.ml, Type::UNKNOWN), (&self.rare, Type::TEXT)]
            }
        }

        pub(crate) const COUNT: usize = [$(stringify!($group)),+].len() + 2;
    };
}

pub(crate) type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// Writes a row as PostgreSQL reads it: the number of its columns, then of each its type, its length and itself.
pub(crate) fn row(columns: &[Param<'_>], out: &mut BytesMut) -> Result<IsNull, BoxError> {
    out.put_i32(i32::try_from(columns.len())?);
    for (column, column_type) in columns {
        out.put_u32(column_type.oid());
        let length_at = out.len();
        out.put_i32(-1);
        if let IsNull::No = column.to_sql_checked(column_type, out)? {
            let length = i32::try_from(out.len() - length_at - 4)?;
            out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(IsNull::No)
}

columns! {
    /// The commits themselves.
    ch: Heads {
        partition: i32, INT4_ARRAY; number: i64, INT8_ARRAY; id: Uuid, UUID_ARRAY;
        previous_id: Uuid, UUID_ARRAY; next_event: i64, INT8_ARRAY; sweep_at: Option<i64>, INT8_ARRAY;
        now: i64, INT8_ARRAY; next_due: Option<i64>, INT8_ARRAY; added_due: Option<i64>, INT8_ARRAY;
        executions: Option<Vec<u8>>, BYTEA_ARRAY; ended: Option<Vec<u8>>, BYTEA_ARRAY;
        others: Option<String>, TEXT_ARRAY;
    }
    /// Executions of which no trace is left.
    xd: Purged {
        partition: i32, INT4_ARRAY; id: Uuid, UUID_ARRAY;
    }
    /// New executions.
    xi: Inserted {
        partition: i32, INT4_ARRAY; id: Uuid, UUID_ARRAY; created_at: i64, INT8_ARRAY;
        namespace: &'a str, TEXT_ARRAY; lane: &'a str, TEXT_ARRAY; kind: &'a str, TEXT_ARRAY;
        spec: String, TEXT_ARRAY; changed_at: i64, INT8_ARRAY; state: &'a str, TEXT_ARRAY;
        reason: &'a str, TEXT_ARRAY; live: String, TEXT_ARRAY; holder: Option<Uuid>, UUID_ARRAY;
        flow: Option<Uuid>, UUID_ARRAY; member: Option<i64>, INT8_ARRAY;
    }
    /// Executions that were there.
    xu: Updated {
        partition: i32, INT4_ARRAY; id: Uuid, UUID_ARRAY; changed_at: i64, INT8_ARRAY;
        state: &'a str, TEXT_ARRAY; reason: &'a str, TEXT_ARRAY; live: String, TEXT_ARRAY;
        holder: Option<Uuid>, UUID_ARRAY;
    }
    /// Ready entries that go.
    rd: ReadyRemoved {
        partition: i32, INT4_ARRAY; lane: &'a str, TEXT_ARRAY; class: Text<'a>, TEXT_ARRAY;
        rank: i64, INT8_ARRAY; number: i64, INT8_ARRAY;
    }
    /// Ready entries that come.
    ri: ReadyAdded {
        partition: i32, INT4_ARRAY; lane: &'a str, TEXT_ARRAY; class: Text<'a>, TEXT_ARRAY;
        rank: i64, INT8_ARRAY; number: i64, INT8_ARRAY; execution: Uuid, UUID_ARRAY;
    }
    /// Agenda entries that go.
    ad: AgendaRemoved {
        partition: i32, INT4_ARRAY; due: i64, INT8_ARRAY; kind: &'a str, TEXT_ARRAY; subject: Uuid, UUID_ARRAY;
    }
    /// Agenda entries that come.
    ai: AgendaAdded {
        partition: i32, INT4_ARRAY; due: i64, INT8_ARRAY; kind: &'a str, TEXT_ARRAY; subject: Uuid, UUID_ARRAY;
        message: Option<String>, TEXT_ARRAY;
    }
    /// Entries of the list of ended executions that go.
    ed: EndedRemoved {
        partition: i32, INT4_ARRAY; remove_at: i64, INT8_ARRAY; execution: Uuid, UUID_ARRAY;
    }
    /// Entries of the list of ended executions that come.
    ei: EndedAdded {
        partition: i32, INT4_ARRAY; remove_at: i64, INT8_ARRAY; execution: Uuid, UUID_ARRAY;
    }
    /// Inputs and results.
    pi: Payloads {
        partition: i32, INT4_ARRAY; execution: Uuid, UUID_ARRAY; slot: &'a str, TEXT_ARRAY;
        content_type: &'a str, TEXT_ARRAY; bytes: &'a [u8], BYTEA_ARRAY;
    }
    /// Idempotency keys; without an execution they go.
    dk: DedupKeys {
        partition: i32, INT4_ARRAY; namespace: &'a str, TEXT_ARRAY; key: &'a str, TEXT_ARRAY;
        execution: Option<Uuid>, UUID_ARRAY; expires_at: Option<i64>, INT8_ARRAY;
    }
    /// Flows that go.
    fd: FlowsRemoved {
        partition: i32, INT4_ARRAY; id: Uuid, UUID_ARRAY;
    }
    /// Flows, new or not.
    fp: Flows {
        partition: i32, INT4_ARRAY; id: Uuid, UUID_ARRAY; created_at: i64, INT8_ARRAY;
        namespace: &'a str, TEXT_ARRAY; kind: &'a str, TEXT_ARRAY; spec: String, TEXT_ARRAY;
        state: &'a str, TEXT_ARRAY; revision: i64, INT8_ARRAY; changed_at: i64, INT8_ARRAY;
        remove_at: Option<i64>, INT8_ARRAY; live: String, TEXT_ARRAY;
    }
    /// Edges that go.
    gd: EdgesRemoved {
        partition: i32, INT4_ARRAY; upstream: Uuid, UUID_ARRAY; downstream: Uuid, UUID_ARRAY;
    }
    /// Edges, new or not.
    gp: Edges {
        partition: i32, INT4_ARRAY; upstream: Uuid, UUID_ARRAY; downstream: Uuid, UUID_ARRAY;
        flow: Uuid, UUID_ARRAY; number: i64, INT8_ARRAY; condition: &'a str, TEXT_ARRAY;
        field: Option<&'a str>, TEXT_ARRAY; counted: Option<&'a str>, TEXT_ARRAY; needed: bool, BOOL_ARRAY;
        passes: bool, BOOL_ARRAY; created_at: i64, INT8_ARRAY; created_by: &'a str, TEXT_ARRAY;
    }
    /// By how much counts change.
    nc: Counts {
        partition: i32, INT4_ARRAY; number: i64, INT8_ARRAY; namespace: &'a str, TEXT_ARRAY;
        lane: &'a str, TEXT_ARRAY; kind: &'a str, TEXT_ARRAY; state: &'a str, TEXT_ARRAY;
        delta: i64, INT8_ARRAY;
    }
    /// By how much ready counts change.
    rc: ReadyCounts {
        partition: i32, INT4_ARRAY; number: i64, INT8_ARRAY; lane: &'a str, TEXT_ARRAY;
        class: Text<'a>, TEXT_ARRAY; delta: i64, INT8_ARRAY;
    }
    /// Packs of events.
    ev: Events {
        partition: i32, INT4_ARRAY; first: i64, INT8_ARRAY; last: i64, INT8_ARRAY; at: i64, INT8_ARRAY;
        body: String, TEXT_ARRAY;
    }
}

/// Numbers count commits and events; none comes near the limit.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) type Encoded = Result<(), serde_json::Error>;

impl<'a> Columns<'a> {
    /// The columns of commits of different partitions.
    pub(crate) fn of(
        commits: impl IntoIterator<Item = &'a Commit> + Clone,
    ) -> Result<Columns<'a>, serde_json::Error> {
        let mut columns = Columns::default();
        let mut rare = Rare::default();
        for commit in commits.clone() {
            columns.log(commit, &mut rare)?;
            columns.executions(i32::from(commit.partition.0), &commit.changes)?;
            columns.lists(i32::from(commit.partition.0), &commit.changes)?;
            columns.graph(i32::from(commit.partition.0), &commit.changes)?;
            columns.ml.add(i32::from(commit.partition.0), &commit.changes);
            columns.counters(commit);
            columns.events(i32::from(commit.partition.0), &commit.changes.events)?;
            rare.settings(i32::from(commit.partition.0), &commit.changes)?;
        }
        columns.registry = registry(commits)?;
        columns.rare = if rare.is_empty() { None } else { Some(serde_json::to_string(&rare)?) };
        Ok(columns)
    }

    fn log(&mut self, commit: &'a Commit, rare: &mut Rare) -> Encoded {
        let partition = i32::from(commit.partition.0);
        let number = commit.expected.number + 1;
        let changes = &commit.changes;
        self.ch.partition.push(partition);
        self.ch.number.push(int(number));
        self.ch.id.push(commit.id.0);
        self.ch.previous_id.push(commit.expected.id.0);
        self.ch.next_event.push(int(changes.header.next_event));
        self.ch.sweep_at.push(changes.header.sweep_at);
        self.ch.now.push(changes.header.now);
        self.ch.next_due.push(changes.next_due);
        self.ch.added_due.push(changes.agenda_added.iter().map(|entry| entry.key.due).min());
        let Packed { executions, ended, others } = pack(changes)?;
        self.ch.executions.push(executions);
        self.ch.ended.push(ended);
        self.ch.others.push(others);
        if number.is_multiple_of(PRUNE_EVERY) && number > KEPT_VERSIONS {
            let upto = number - KEPT_VERSIONS;
            rare.prune
                .push(json!({ "partition": partition, "upto": upto, "before": KEPT_MS, "most": PRUNE_ROWS }));
        }
        if number.is_multiple_of(ZEROS_EVERY) {
            rare.zeros.push(json!({ "partition": partition }));
        }
        Ok(())
    }

    fn executions(&mut self, partition: i32, changes: &'a Changes) -> Encoded {
        let holder = |it: &Execution| it.lease().map(|lease| lease.instance.0);
        for change in &changes.executions {
            match change {
                ExecutionChange::Purge(id) => {
                    self.xd.partition.push(partition);
                    self.xd.id.push(id.0);
                }
                ExecutionChange::Insert(it) => {
                    self.xi.partition.push(partition);
                    self.xi.id.push(it.id.0);
                    self.xi.created_at.push(it.spec.created_at);
                    self.xi.namespace.push(it.spec.namespace.as_str());
                    self.xi.lane.push(it.spec.lane.as_str());
                    self.xi.kind.push(it.spec.kind.as_str());
                    self.xi.spec.push(text(&*it.spec, 256)?);
                    self.xi.changed_at.push(it.live.changed_at);
                    self.xi.state.push(it.public_state().word());
                    self.xi.reason.push(it.reason().word());
                    self.xi.live.push(text(&it.live, 256)?);
                    self.xi.holder.push(holder(it));
                    let member = it.spec.member.as_ref();
                    self.xi.flow.push(member.map(|member| member.flow.0));
                    self.xi.member.push(member.map(|member| int(member.number)));
                }
                ExecutionChange::Update(it) => {
                    self.xu.partition.push(partition);
                    self.xu.id.push(it.id.0);
                    self.xu.changed_at.push(it.live.changed_at);
                    self.xu.state.push(it.public_state().word());
                    self.xu.reason.push(it.reason().word());
                    self.xu.live.push(text(&it.live, 512)?);
                    self.xu.holder.push(holder(it));
                }
            }
        }
        Ok(())
    }

    fn lists(&mut self, partition: i32, changes: &'a Changes) -> Encoded {
        let mut class_text = ClassText::default();
        for ReadyEntry { lane, class, rank, number, .. } in &changes.ready_removed {
            self.rd.partition.push(partition);
            self.rd.lane.push(lane.as_str());
            self.rd.class.push(class_text.of(class));
            self.rd.rank.push(*rank);
            self.rd.number.push(int(*number));
        }
        for ReadyEntry { lane, class, rank, number, execution } in &changes.ready_added {
            self.ri.partition.push(partition);
            self.ri.lane.push(lane.as_str());
            self.ri.class.push(class_text.of(class));
            self.ri.rank.push(*rank);
            self.ri.number.push(int(*number));
            self.ri.execution.push(execution.0);
        }
        for AgendaKey { due, subject } in &changes.agenda_removed {
            self.ad.partition.push(partition);
            self.ad.due.push(*due);
            self.ad.kind.push(subject.kind());
            self.ad.subject.push(subject_id(subject));
        }
        for AgendaEntry { key: AgendaKey { due, subject }, message } in &changes.agenda_added {
            self.ai.partition.push(partition);
            self.ai.due.push(*due);
            self.ai.kind.push(subject.kind());
            self.ai.subject.push(subject_id(subject));
            self.ai.message.push(message.as_ref().map(|message| text(&**message, 256)).transpose()?);
        }
        for entry in &changes.ended_removed {
            self.ed.partition.push(partition);
            self.ed.remove_at.push(entry.remove_at);
            self.ed.execution.push(entry.execution.0);
        }
        for entry in &changes.ended_added {
            self.ei.partition.push(partition);
            self.ei.remove_at.push(entry.remove_at);
            self.ei.execution.push(entry.execution.0);
        }
        for (key, payload) in &changes.payloads {
            self.pi.partition.push(partition);
            self.pi.execution.push(key.execution.0);
            self.pi.slot.push(key.slot.word());
            self.pi.content_type.push(&payload.content_type);
            self.pi.bytes.push(&payload.bytes);
        }
        for (key, dedup) in &changes.dedup {
            self.dk.partition.push(partition);
            self.dk.namespace.push(key.namespace.as_str());
            self.dk.key.push(&key.key);
            self.dk.execution.push(dedup.as_ref().map(|it| it.execution.0));
            self.dk.expires_at.push(dedup.as_ref().map(|it| it.expires_at));
        }
        Ok(())
    }

    fn counters(&mut self, commit: &'a Commit) {
        let partition = i32::from(commit.partition.0);
        let number = int(commit.expected.number + 1);
        for (key, delta) in &commit.changes.counts {
            self.nc.partition.push(partition);
            self.nc.number.push(number);
            self.nc.namespace.push(key.namespace.as_str());
            self.nc.lane.push(key.lane.as_str());
            self.nc.kind.push(key.kind.as_str());
            self.nc.state.push(key.state.word());
            self.nc.delta.push(*delta);
        }
        for ((lane, class), delta) in &commit.changes.ready_counts {
            self.rc.partition.push(partition);
            self.rc.number.push(number);
            self.rc.lane.push(lane.as_str());
            self.rc.class.push(class.to_string().into());
            self.rc.delta.push(*delta);
        }
    }

    fn events(&mut self, partition: i32, events: &[Event]) -> Encoded {
        for pack in events.chunks(EVENTS_PER_ROW) {
            let (Some(first), Some(last)) = (pack.first(), pack.last()) else { continue };
            self.ev.partition.push(partition);
            self.ev.first.push(int(first.number));
            self.ev.last.push(int(last.number));
            self.ev.at.push(last.at);
            self.ev.body.push(text(pack, pack.len() * 256)?);
        }
        Ok(())
    }
}

/// What few commits write, as JSON.
#[derive(Debug, Default, Serialize)]
struct Rare {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lanes: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    workers: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trims: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inbox: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    letters: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prune: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    zeros: Vec<Value>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        let Rare { attempts, lanes, workers, keys, links, trims, inbox, letters, prune, zeros } = self;
        let lists = [attempts, lanes, workers, keys, links, trims, inbox, letters, prune, zeros];
        lists.iter().all(|it| it.is_empty())
    }

    fn settings(&mut self, partition: i32, changes: &Changes) -> Encoded {
        for (id, attempt) in &changes.attempts {
            let record = text(attempt, 256)?;
            self.attempts.push(json!({
                "partition": partition, "execution": id, "number": attempt.number, "record": record,
            }));
        }
        for (name, lane) in &changes.lanes {
            let record = lane.as_ref().map(|lane| text(&**lane, 128)).transpose()?;
            let mode = lane.as_ref().map(|lane| lane.mode.word());
            self.lanes.push(json!({ "partition": partition, "name": name, "mode": mode, "record": record }));
        }
        for (instance, worker) in &changes.workers {
            let record = worker.as_ref().map(|worker| text(&**worker, 256)).transpose()?;
            let (name, mode) =
                (worker.as_ref().map(|it| it.name.as_str()), worker.as_ref().map(|it| it.mode.word()));
            self.workers.push(json!({
                "partition": partition, "instance": instance, "name": name, "mode": mode, "record": record,
            }));
        }
        for (id, key) in &changes.signing_keys {
            self.keys.push(match key {
                Some(key) => json!({
                    "partition": partition, "id": id, "secret": key.secret, "created_at": key.created_at,
                    "retires_at": key.retires_at, "revision": key.revision,
                }),
                None => json!({ "partition": partition, "id": id }),
            });
        }
        for link in &changes.links {
            self.links.push(json!({
                "partition": partition, "peer": link.peer, "sent": link.sent, "received": link.received,
            }));
        }
        for (number, fate) in &changes.inbox {
            let reason = match fate {
                Fate::Taken => None,
                Fate::Dead { reason } => Some(reason),
                Fate::Reposted | Fate::Dropped => {
                    let again = *fate == Fate::Reposted;
                    self.letters.push(json!({ "partition": partition, "number": number, "again": again }));
                    continue;
                }
            };
            let at = changes.header.now;
            self.inbox.push(json!({ "partition": partition, "number": number, "reason": reason, "at": at }));
        }
        if let Some(below) = changes.events_trimmed_below {
            self.trims.push(json!({ "partition": partition, "below": below }));
        }
        Ok(())
    }
}

/// The records that commits write to the registry; one without a body goes.
fn registry<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Result<Option<String>, serde_json::Error> {
    let mut records = Vec::new();
    for commit in commits {
        for (key, record) in &commit.changes.registry {
            let body = record.as_ref().map(|record| record.body()).transpose()?;
            records.push(json!({
                "partition": commit.partition.0, "kind": key.kind, "id": key.id, "body": body,
            }));
        }
    }
    Ok((!records.is_empty()).then(|| Value::Array(records).to_string()))
}

pub(crate) fn text<T: Serialize + ?Sized>(value: &T, room: usize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::with_capacity(room);
    serde_json::to_writer(&mut bytes, value)?;
    // JSON is UTF-8; nothing is lost.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// A subject as an id: a message's is where it goes and its number.
pub(crate) fn subject_id(subject: &Subject) -> Uuid {
    match subject {
        Subject::Timer(id) | Subject::Cascade(id) | Subject::Children(id) | Subject::Frames(id) => id.0,
        Subject::Members(id) => id.0,
        Subject::WorkerTimer(id) | Subject::WorkerLeases(id) => id.0,
        Subject::Sweep => Uuid::nil(),
        Subject::Deliver { to, number } => Uuid::from_u64_pair(u64::from(to.0), *number),
    }
}

/// The text of the class seen last: entries of one class mostly come together.
#[derive(Debug, Default)]
struct ClassText<'a> {
    last: Option<(&'a Class, String)>,
}

impl<'a> ClassText<'a> {
    fn of(&mut self, class: &'a Class) -> Text<'a> {
        match &self.last {
            Some((known, text)) if *known == class => text.clone().into(),
            _ => {
                let text = class.to_string();
                self.last = Some((class, text.clone()));
                text.into()
            }
        }
    }
}
