//! The changes of several commits as columns: the arguments of the commit function.

use std::borrow::Cow;

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
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::keys::{KEPT_MS, KEPT_VERSIONS, pack};

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
    ($($name:ident: $rust:ty, $sql:ident;)+) => {
        /// One list for each argument, in the order in which the function takes them.
        #[derive(Debug, Default)]
        pub(crate) struct Columns<'a> {
            $(pub(crate) $name: Vec<$rust>,)+
            rare: Option<String>,
        }

        impl Columns<'_> {
            /// Without the first two arguments, which are not lists.
            pub(crate) fn params(&self) -> Vec<Param<'_>> {
                vec![$((&self.$name, Type::$sql),)+ (&self.rare, Type::TEXT)]
            }
        }

        pub(crate) const COUNT: usize = [$(stringify!($name)),+].len() + 1;
    };
}

columns! {
    c_partition: i32, INT4_ARRAY; c_number: i64, INT8_ARRAY; c_id: Uuid, UUID_ARRAY;
    c_previous_id: Uuid, UUID_ARRAY; c_next_event: i64, INT8_ARRAY; c_sweep_at: Option<i64>, INT8_ARRAY;
    c_now: i64, INT8_ARRAY; c_next_due: Option<i64>, INT8_ARRAY; c_added_due: Option<i64>, INT8_ARRAY;
    c_executions: Option<Vec<u8>>, BYTEA_ARRAY; c_others: Option<String>, TEXT_ARRAY;
    xd_partition: i32, INT4_ARRAY; xd_id: Uuid, UUID_ARRAY;
    xi_partition: i32, INT4_ARRAY; xi_id: Uuid, UUID_ARRAY; xi_created_at: i64, INT8_ARRAY;
    xi_namespace: &'a str, TEXT_ARRAY; xi_lane: &'a str, TEXT_ARRAY; xi_kind: &'a str, TEXT_ARRAY;
    xi_spec: String, TEXT_ARRAY; xi_changed_at: i64, INT8_ARRAY; xi_state: &'a str, TEXT_ARRAY;
    xi_reason: &'a str, TEXT_ARRAY; xi_live: String, TEXT_ARRAY; xi_holder: Option<Uuid>, UUID_ARRAY;
    xu_partition: i32, INT4_ARRAY; xu_id: Uuid, UUID_ARRAY; xu_changed_at: i64, INT8_ARRAY;
    xu_state: &'a str, TEXT_ARRAY; xu_reason: &'a str, TEXT_ARRAY; xu_live: String, TEXT_ARRAY;
    xu_holder: Option<Uuid>, UUID_ARRAY;
    rd_partition: i32, INT4_ARRAY; rd_lane: &'a str, TEXT_ARRAY; rd_class: Text<'a>, TEXT_ARRAY;
    rd_rank: i64, INT8_ARRAY; rd_number: i64, INT8_ARRAY;
    ri_partition: i32, INT4_ARRAY; ri_lane: &'a str, TEXT_ARRAY; ri_class: Text<'a>, TEXT_ARRAY;
    ri_rank: i64, INT8_ARRAY; ri_number: i64, INT8_ARRAY; ri_execution: Uuid, UUID_ARRAY;
    ad_partition: i32, INT4_ARRAY; ad_due: i64, INT8_ARRAY; ad_kind: &'a str, TEXT_ARRAY;
    ad_subject: Uuid, UUID_ARRAY;
    ai_partition: i32, INT4_ARRAY; ai_due: i64, INT8_ARRAY; ai_kind: &'a str, TEXT_ARRAY;
    ai_subject: Uuid, UUID_ARRAY; ai_message: Option<String>, TEXT_ARRAY;
    ed_partition: i32, INT4_ARRAY; ed_remove_at: i64, INT8_ARRAY; ed_execution: Uuid, UUID_ARRAY;
    ei_partition: i32, INT4_ARRAY; ei_remove_at: i64, INT8_ARRAY; ei_execution: Uuid, UUID_ARRAY;
    p_partition: i32, INT4_ARRAY; p_execution: Uuid, UUID_ARRAY; p_slot: &'a str, TEXT_ARRAY;
    p_content_type: &'a str, TEXT_ARRAY; p_bytes: &'a [u8], BYTEA_ARRAY;
    d_partition: i32, INT4_ARRAY; d_namespace: &'a str, TEXT_ARRAY; d_key: &'a str, TEXT_ARRAY;
    d_execution: Option<Uuid>, UUID_ARRAY; d_expires_at: Option<i64>, INT8_ARRAY;
    n_partition: i32, INT4_ARRAY; n_number: i64, INT8_ARRAY; n_namespace: &'a str, TEXT_ARRAY;
    n_lane: &'a str, TEXT_ARRAY; n_kind: &'a str, TEXT_ARRAY; n_state: &'a str, TEXT_ARRAY;
    n_delta: i64, INT8_ARRAY;
    q_partition: i32, INT4_ARRAY; q_number: i64, INT8_ARRAY; q_lane: &'a str, TEXT_ARRAY;
    q_class: Text<'a>, TEXT_ARRAY; q_delta: i64, INT8_ARRAY;
    e_partition: i32, INT4_ARRAY; e_first: i64, INT8_ARRAY; e_last: i64, INT8_ARRAY;
    e_at: i64, INT8_ARRAY; e_body: String, TEXT_ARRAY;
}

/// Numbers count commits and events; none comes near the limit.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

type Encoded = Result<(), serde_json::Error>;

impl<'a> Columns<'a> {
    /// The columns of commits of different partitions.
    pub(crate) fn of(
        commits: impl IntoIterator<Item = &'a Commit>,
    ) -> Result<Columns<'a>, serde_json::Error> {
        let mut columns = Columns::default();
        let mut rare = Rare::default();
        for commit in commits {
            columns.log(commit, &mut rare)?;
            columns.executions(i32::from(commit.partition.0), &commit.changes)?;
            columns.lists(i32::from(commit.partition.0), &commit.changes)?;
            columns.counters(commit);
            columns.events(i32::from(commit.partition.0), &commit.changes.events)?;
            rare.settings(i32::from(commit.partition.0), &commit.changes)?;
        }
        columns.rare = if rare.is_empty() { None } else { Some(serde_json::to_string(&rare)?) };
        Ok(columns)
    }

    fn log(&mut self, commit: &'a Commit, rare: &mut Rare) -> Encoded {
        let partition = i32::from(commit.partition.0);
        let number = commit.expected.number + 1;
        let changes = &commit.changes;
        self.c_partition.push(partition);
        self.c_number.push(int(number));
        self.c_id.push(commit.id.0);
        self.c_previous_id.push(commit.expected.id.0);
        self.c_next_event.push(int(changes.header.next_event));
        self.c_sweep_at.push(changes.header.sweep_at);
        self.c_now.push(changes.header.now);
        self.c_next_due.push(changes.next_due);
        self.c_added_due.push(changes.agenda_added.iter().map(|entry| entry.key.due).min());
        let (executions, others) = pack(changes)?;
        self.c_executions.push(executions);
        self.c_others.push(others);
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
                    self.xd_partition.push(partition);
                    self.xd_id.push(id.0);
                }
                ExecutionChange::Insert(it) => {
                    self.xi_partition.push(partition);
                    self.xi_id.push(it.id.0);
                    self.xi_created_at.push(it.spec.created_at);
                    self.xi_namespace.push(it.spec.namespace.as_str());
                    self.xi_lane.push(it.spec.lane.as_str());
                    self.xi_kind.push(it.spec.kind.as_str());
                    self.xi_spec.push(text(&*it.spec, 256)?);
                    self.xi_changed_at.push(it.live.changed_at);
                    self.xi_state.push(it.public_state().word());
                    self.xi_reason.push(it.reason().word());
                    self.xi_live.push(text(&it.live, 256)?);
                    self.xi_holder.push(holder(it));
                }
                ExecutionChange::Update(it) => {
                    self.xu_partition.push(partition);
                    self.xu_id.push(it.id.0);
                    self.xu_changed_at.push(it.live.changed_at);
                    self.xu_state.push(it.public_state().word());
                    self.xu_reason.push(it.reason().word());
                    self.xu_live.push(text(&it.live, 512)?);
                    self.xu_holder.push(holder(it));
                }
            }
        }
        Ok(())
    }

    fn lists(&mut self, partition: i32, changes: &'a Changes) -> Encoded {
        let mut class_text = ClassText::default();
        for ReadyEntry { lane, class, rank, number, .. } in &changes.ready_removed {
            self.rd_partition.push(partition);
            self.rd_lane.push(lane.as_str());
            self.rd_class.push(class_text.of(class));
            self.rd_rank.push(*rank);
            self.rd_number.push(int(*number));
        }
        for ReadyEntry { lane, class, rank, number, execution } in &changes.ready_added {
            self.ri_partition.push(partition);
            self.ri_lane.push(lane.as_str());
            self.ri_class.push(class_text.of(class));
            self.ri_rank.push(*rank);
            self.ri_number.push(int(*number));
            self.ri_execution.push(execution.0);
        }
        for AgendaKey { due, subject } in &changes.agenda_removed {
            self.ad_partition.push(partition);
            self.ad_due.push(*due);
            self.ad_kind.push(subject.kind());
            self.ad_subject.push(subject_id(subject));
        }
        for AgendaEntry { key: AgendaKey { due, subject }, message } in &changes.agenda_added {
            self.ai_partition.push(partition);
            self.ai_due.push(*due);
            self.ai_kind.push(subject.kind());
            self.ai_subject.push(subject_id(subject));
            self.ai_message.push(message.as_ref().map(|message| text(&**message, 256)).transpose()?);
        }
        for entry in &changes.ended_removed {
            self.ed_partition.push(partition);
            self.ed_remove_at.push(entry.remove_at);
            self.ed_execution.push(entry.execution.0);
        }
        for entry in &changes.ended_added {
            self.ei_partition.push(partition);
            self.ei_remove_at.push(entry.remove_at);
            self.ei_execution.push(entry.execution.0);
        }
        for (key, payload) in &changes.payloads {
            self.p_partition.push(partition);
            self.p_execution.push(key.execution.0);
            self.p_slot.push(key.slot.word());
            self.p_content_type.push(&payload.content_type);
            self.p_bytes.push(&payload.bytes);
        }
        for (key, dedup) in &changes.dedup {
            self.d_partition.push(partition);
            self.d_namespace.push(key.namespace.as_str());
            self.d_key.push(&key.key);
            self.d_execution.push(dedup.as_ref().map(|it| it.execution.0));
            self.d_expires_at.push(dedup.as_ref().map(|it| it.expires_at));
        }
        Ok(())
    }

    fn counters(&mut self, commit: &'a Commit) {
        let partition = i32::from(commit.partition.0);
        let number = int(commit.expected.number + 1);
        for (key, delta) in &commit.changes.counts {
            self.n_partition.push(partition);
            self.n_number.push(number);
            self.n_namespace.push(key.namespace.as_str());
            self.n_lane.push(key.lane.as_str());
            self.n_kind.push(key.kind.as_str());
            self.n_state.push(key.state.word());
            self.n_delta.push(*delta);
        }
        for ((lane, class), delta) in &commit.changes.ready_counts {
            self.q_partition.push(partition);
            self.q_number.push(number);
            self.q_lane.push(lane.as_str());
            self.q_class.push(class.to_string().into());
            self.q_delta.push(*delta);
        }
    }

    fn events(&mut self, partition: i32, events: &[Event]) -> Encoded {
        for pack in events.chunks(EVENTS_PER_ROW) {
            let (Some(first), Some(last)) = (pack.first(), pack.last()) else { continue };
            self.e_partition.push(partition);
            self.e_first.push(int(first.number));
            self.e_last.push(int(last.number));
            self.e_at.push(last.at);
            self.e_body.push(text(pack, pack.len() * 256)?);
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
        let Rare { attempts, lanes, workers, links, trims, inbox, letters, prune, zeros } = self;
        [attempts, lanes, workers, links, trims, inbox, letters, prune, zeros].iter().all(|it| it.is_empty())
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

fn text<T: Serialize + ?Sized>(value: &T, room: usize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::with_capacity(room);
    serde_json::to_writer(&mut bytes, value)?;
    // JSON is UTF-8; nothing is lost.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// A subject as an id: a message's is where it goes and its number.
pub(crate) fn subject_id(subject: &Subject) -> Uuid {
    match subject {
        Subject::Timer(id) => id.0,
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
