//! What one commit writes: its changes, row by row, through statements that are prepared once.

use ff_core::agenda::{AgendaEntry, AgendaKey, Subject};
use ff_core::change::{Changes, ExecutionChange};
use ff_core::class::Class;
use ff_core::execution::Execution;
use ff_core::inbox::Fate;
use ff_core::ready::ReadyEntry;
use ff_core::{Ms, ServerId};
use ff_store::{Commit, Version};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql, params};
use serde::Serialize;

use crate::events::EventWriter;
use crate::keys::{KEPT_MS, KEPT_VERSIONS, PackedKeys};
use crate::raw::Tape;
use crate::sql::write;

/// Old commit rows go in steps: every so many commits, at most twice as many rows.
const PRUNE_EVERY: u64 = 64;
const PRUNE_ROWS: i64 = 128;
/// Counters that fell to zero are rare; their rows may stay for a while.
const SWEEP_COUNTERS_EVERY: u64 = 8_192;

/// A member of a flow is written with room for what it will become, so that its page need not be shared out anew each
/// time one of its neighbours starts or ends.
const MEMBER_ROOM_BYTES: usize = 512;

/// JSON on its way into a text column, without a second look at its encoding.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Numbers count commits and events; none comes near the limit.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn encode<T: Serialize + ?Sized>(buffer: &mut Vec<u8>, value: &T) -> rusqlite::Result<()> {
    buffer.clear();
    serde_json::to_writer(buffer, value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

macro_rules! statements {
    ($($name:ident)+) => {
        #[derive(Debug)]
        struct Statements<'c> { $($name: Statement<'c>),+ }

        impl<'c> Statements<'c> {
            fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Statements { $($name: conn.prepare(write::$name)?),+ })
            }
        }
    };
}

statements!(
    add_count add_ready_count delete_agenda delete_attempts delete_dead_letter delete_dedup delete_edge
    delete_ended delete_execution delete_flow delete_frames delete_frames_below delete_frames_older delete_lane
    delete_payloads delete_posted delete_ready delete_record delete_signals delete_signing_key delete_steps delete_stream
    delete_turn delete_waitpoint delete_worker delete_zero_counts delete_zero_ready_counts has_traces
    insert_commit insert_execution insert_frame insert_ready insert_signal insert_waitpoint newest_commit
    prune_commits put_agenda put_attempt put_dead_letter put_dedup put_edge put_ended put_flow put_lane put_link
    put_payload put_record put_signing_key put_step put_stream put_turn put_worker repost_dead_letter turn update_execution
);

/// Runs a statement, and notes it if somebody listens.
macro_rules! run {
    ($self:ident, $name:ident, $row:expr) => {{
        let row: &[&dyn ToSql] = $row;
        if let Some(tape) = &mut $self.tape {
            tape.note(write::$name, row)?;
        }
        $self.sql.$name.execute(row)
    }};
}

mod mail;
mod registry;

/// Statements and buffers of the writer.
#[derive(Debug)]
pub(crate) struct Apply<'c> {
    sql: Statements<'c>,
    events: EventWriter<'c>,
    spec: Vec<u8>,
    json: Vec<u8>,
    class: ClassText,
    keys: PackedKeys,
    /// Statements run since the last look.
    ran: u64,
    /// Where statements are noted, for the bare client of the benchmark.
    pub(crate) tape: Option<Tape>,
}

impl<'c> Apply<'c> {
    pub(crate) fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Apply {
            sql: Statements::prepare(conn)?,
            events: EventWriter::prepare(conn)?,
            spec: Vec::new(),
            json: Vec::new(),
            class: ClassText::default(),
            keys: PackedKeys::default(),
            ran: 0,
            tape: None,
        })
    }

    pub(crate) fn take_ran(&mut self) -> u64 {
        std::mem::take(&mut self.ran)
    }

    /// Where a partition stands inside the transaction.
    pub(crate) fn version(&mut self, partition: i64) -> rusqlite::Result<Version> {
        self.ran += 1;
        let mut rows = self.sql.newest_commit.query([partition])?;
        match rows.next()? {
            None => Ok(Version::NONE),
            Some(row) => crate::records::version(row),
        }
    }

    /// Whose turn a partition is inside the transaction, and until when; also one that is over.
    pub(crate) fn turn(&mut self, partition: i64) -> rusqlite::Result<Option<(ServerId, Ms)>> {
        self.ran += 1;
        let mut rows = self.sql.turn.query([partition])?;
        match rows.next()? {
            None => Ok(None),
            Some(row) => Ok(Some((ServerId(crate::records::id(row, 0)?), row.get(1)?))),
        }
    }

    pub(crate) fn put_turn(&mut self, partition: i64, server: ServerId, until: Ms) -> rusqlite::Result<()> {
        self.ran += 1;
        self.sql.put_turn.execute(params![partition, server.0.as_bytes(), until]).map(drop)
    }

    pub(crate) fn delete_turn(&mut self, partition: i64) -> rusqlite::Result<()> {
        self.ran += 1;
        self.sql.delete_turn.execute([partition]).map(drop)
    }

    /// Writes a commit whose guard holds.
    pub(crate) fn commit(&mut self, commit: &Commit, at: Ms) -> rusqlite::Result<()> {
        let partition = i64::from(commit.partition.0);
        let changes = &commit.changes;
        self.executions(partition, changes)?;
        self.lists(partition, changes)?;
        self.graph(partition, changes)?;
        self.mail(partition, changes)?;
        self.registry(partition, changes)?;
        self.settings(partition, changes)?;
        self.counters(partition, changes)?;
        self.ran += self.events.append(partition, &changes.events, &mut self.json, &mut self.tape)?;
        if let Some(below) = changes.events_trimmed_below {
            self.events.trim_below(partition, below, &mut self.json)?;
            self.ran += 2;
        }
        self.log(partition, commit, at)
    }

    fn executions(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        let mut traces = None;
        for change in &changes.executions {
            match change {
                ExecutionChange::Insert(execution) => self.insert_execution(partition, execution)?,
                ExecutionChange::Update(execution) => self.update_execution(execution)?,
                ExecutionChange::Purge(execution) => {
                    let id = execution.0.as_bytes();
                    run!(self, delete_execution, params![id])?;
                    run!(self, delete_payloads, params![id])?;
                    run!(self, delete_attempts, params![id])?;
                    self.ran += 2;
                    let found = match traces {
                        Some(found) => found,
                        None => *traces.insert(self.traces()?),
                    };
                    self.purge_traces(found, *execution)?;
                }
            }
        }
        self.ran += changes.executions.len() as u64;
        Ok(())
    }

    fn insert_execution(&mut self, partition: i64, execution: &Execution) -> rusqlite::Result<()> {
        let spec = &execution.spec;
        encode(&mut self.spec, &**spec)?;
        encode(&mut self.json, &execution.live)?;
        if spec.member.is_some() && self.json.len() < MEMBER_ROOM_BYTES {
            self.json.resize(MEMBER_ROOM_BYTES, b' ');
        }
        run!(
            self,
            insert_execution,
            params![
                execution.id.0.as_bytes(),
                partition,
                spec.namespace.as_str(),
                spec.lane.as_str(),
                spec.kind.as_str(),
                spec.created_at,
                execution.public_state().word(),
                execution.reason().word(),
                execution.live.changed_at,
                execution.lease().map(|lease| lease.instance.0.as_bytes()),
                spec.member.as_ref().map(|member| member.flow.0.as_bytes()),
                spec.member.as_ref().map(|member| int(member.number)),
                Text(&self.spec),
                Text(&self.json),
            ]
        )?;
        Ok(())
    }

    fn update_execution(&mut self, execution: &Execution) -> rusqlite::Result<()> {
        encode(&mut self.json, &execution.live)?;
        let updated = run!(
            self,
            update_execution,
            params![
                execution.id.0.as_bytes(),
                execution.public_state().word(),
                execution.reason().word(),
                execution.live.changed_at,
                execution.lease().map(|lease| lease.instance.0.as_bytes()),
                Text(&self.json),
            ]
        )?;
        // An update of nothing means that decision and store disagree; better to refuse than to drift.
        if updated == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(updated)) }
    }

    /// The ordered lists, and what is kept beside executions. Removals come first: an entry may move.
    fn lists(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for ReadyEntry { lane, class, rank, number, .. } in &changes.ready_removed {
            let class = self.class.of(class);
            let row = params![partition, lane.as_str(), class, rank, int(*number)];
            run!(self, delete_ready, row)?;
        }
        for ReadyEntry { lane, class, rank, number, execution } in &changes.ready_added {
            let class = self.class.of(class);
            let id = execution.0.as_bytes();
            let row = params![partition, lane.as_str(), class, rank, int(*number), id];
            run!(self, insert_ready, row)?;
        }
        for AgendaKey { due, subject } in &changes.agenda_removed {
            run!(self, delete_agenda, params![partition, due, subject.kind(), SubjectColumn(subject)])?;
        }
        for AgendaEntry { key: AgendaKey { due, subject }, message } in &changes.agenda_added {
            if let Some(message) = message {
                encode(&mut self.json, &**message)?;
            }
            let message = message.as_ref().map(|_| Text(&self.json));
            let row = params![partition, due, subject.kind(), SubjectColumn(subject), message];
            run!(self, put_agenda, row)?;
        }
        for entry in &changes.ended_removed {
            let row = params![partition, entry.remove_at, entry.execution.0.as_bytes()];
            run!(self, delete_ended, row)?;
        }
        for entry in &changes.ended_added {
            let row = params![partition, entry.remove_at, entry.execution.0.as_bytes()];
            run!(self, put_ended, row)?;
        }
        for (key, payload) in &changes.payloads {
            let id = key.execution.0.as_bytes();
            let row = params![id, key.slot.word(), &*payload.content_type, &payload.bytes[..]];
            run!(self, put_payload, row)?;
        }
        for (id, attempt) in &changes.attempts {
            encode(&mut self.json, attempt)?;
            run!(self, put_attempt, params![id.0.as_bytes(), attempt.number, Text(&self.json)])?;
        }
        self.ran += (changes.rows() - changes.executions.len()) as u64;
        self.inbox(partition, changes)
    }

    fn inbox(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (number, fate) in &changes.inbox {
            let place = params![int(*number), partition];
            match fate {
                Fate::Taken => run!(self, delete_posted, place)?,
                Fate::Dead { reason } => {
                    let row = params![int(*number), partition, reason, changes.header.now];
                    run!(self, put_dead_letter, row)?;
                    run!(self, delete_posted, place)?
                }
                Fate::Reposted => {
                    run!(self, repost_dead_letter, place)?;
                    run!(self, delete_dead_letter, place)?
                }
                Fate::Dropped => run!(self, delete_dead_letter, place)?,
            };
        }
        Ok(())
    }

    fn graph(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (id, flow) in &changes.flows {
            let Some(flow) = flow else {
                run!(self, delete_flow, params![id.0.as_bytes()])?;
                continue;
            };
            encode(&mut self.spec, &*flow.spec)?;
            encode(&mut self.json, &flow.live)?;
            run!(
                self,
                put_flow,
                params![
                    id.0.as_bytes(),
                    partition,
                    flow.spec.namespace.as_str(),
                    flow.spec.kind.as_str(),
                    flow.spec.created_at,
                    flow.state().word(),
                    int(flow.live.revision),
                    flow.live.changed_at,
                    flow.live.end.as_ref().and_then(|end| end.remove_at),
                    Text(&self.spec),
                    Text(&self.json),
                ]
            )?;
        }
        for (key, edge) in &changes.edges {
            let (upstream, downstream) = (key.upstream.0.as_bytes(), key.downstream.0.as_bytes());
            let Some(edge) = edge else {
                run!(self, delete_edge, params![upstream, downstream])?;
                continue;
            };
            run!(
                self,
                put_edge,
                params![
                    upstream,
                    downstream,
                    partition,
                    edge.flow.0.as_bytes(),
                    int(edge.number),
                    edge.on.word(),
                    edge.field.as_ref().map(|field| field.as_str()),
                    edge.counted.map(|ending| ending.word()),
                    edge.needed,
                    edge.passes,
                    edge.created_at,
                    &*edge.created_by,
                ]
            )?;
        }
        Ok(())
    }

    fn settings(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (key, dedup) in &changes.dedup {
            let namespace = key.namespace.as_str();
            match dedup {
                Some(dedup) => {
                    let id = dedup.execution.0.as_bytes();
                    let row = params![partition, namespace, &*key.key, id, dedup.expires_at];
                    run!(self, put_dedup, row)?
                }
                None => run!(self, delete_dedup, params![partition, namespace, &*key.key])?,
            };
        }
        for (name, lane) in &changes.lanes {
            match lane {
                Some(lane) => {
                    encode(&mut self.json, &**lane)?;
                    let row = params![partition, name.as_str(), lane.mode.word(), Text(&self.json)];
                    run!(self, put_lane, row)?
                }
                None => run!(self, delete_lane, params![partition, name.as_str()])?,
            };
        }
        for (instance, worker) in &changes.workers {
            let id = instance.0.as_bytes();
            match worker {
                Some(worker) => {
                    encode(&mut self.json, &**worker)?;
                    let (name, mode) = (worker.name.as_str(), worker.mode.word());
                    run!(self, put_worker, params![partition, id, name, mode, Text(&self.json)])?
                }
                None => run!(self, delete_worker, params![partition, id])?,
            };
        }
        for link in &changes.links {
            let row = params![partition, link.peer.0, int(link.sent), int(link.received)];
            run!(self, put_link, row)?;
        }
        Ok(())
    }

    fn counters(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (key, delta) in &changes.counts {
            let (namespace, lane) = (key.namespace.as_str(), key.lane.as_str());
            let (kind, state) = (key.kind.as_str(), key.state.word());
            run!(self, add_count, params![partition, namespace, lane, kind, state, delta])?;
        }
        for ((lane, class), delta) in &changes.ready_counts {
            let row = params![partition, lane.as_str(), self.class.of(class), delta];
            run!(self, add_ready_count, row)?;
        }
        self.ran += (changes.counts.len() + changes.ready_counts.len()) as u64;
        Ok(())
    }

    /// The row that makes it the partition's newest version, and from time to time the end of old rows.
    fn log(&mut self, partition: i64, commit: &Commit, at: Ms) -> rusqlite::Result<()> {
        let number = commit.expected.number + 1;
        let header = &commit.changes.header;
        self.keys
            .fill(&commit.changes)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        run!(
            self,
            insert_commit,
            params![
                partition,
                int(number),
                commit.id.0.as_bytes(),
                commit.expected.id.0.as_bytes(),
                at,
                int(header.next_event),
                header.sweep_at,
                header.now,
                self.keys.executions(),
                self.keys.others().map(Text),
            ]
        )?;
        self.ran += 1;
        if number.is_multiple_of(PRUNE_EVERY) && number > KEPT_VERSIONS {
            let row = params![partition, int(number - KEPT_VERSIONS), at - KEPT_MS, PRUNE_ROWS];
            run!(self, prune_commits, row)?;
            self.ran += 1;
        }
        if number.is_multiple_of(SWEEP_COUNTERS_EVERY) {
            run!(self, delete_zero_counts, params![partition])?;
            run!(self, delete_zero_ready_counts, params![partition])?;
            self.ran += 2;
        }
        Ok(())
    }
}

/// Ids as blobs, the rest as text; the view shows all of them as text.
pub(crate) struct SubjectColumn<'a>(pub(crate) &'a Subject);

impl ToSql for SubjectColumn<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Subject::Members(id) => ToSqlOutput::Borrowed(ValueRef::Blob(id.0.as_bytes())),
            Subject::Timer(id) | Subject::Cascade(id) | Subject::Children(id) | Subject::Frames(id) => {
                ToSqlOutput::Borrowed(ValueRef::Blob(id.0.as_bytes()))
            }
            Subject::WorkerTimer(id) | Subject::WorkerLeases(id) => {
                ToSqlOutput::Borrowed(ValueRef::Blob(id.0.as_bytes()))
            }
            Subject::Sweep | Subject::Deliver { .. } => ToSqlOutput::from(self.0.text()),
        })
    }
}

/// The text of the class seen last: entries of one class mostly come together.
#[derive(Debug, Default)]
struct ClassText {
    class: Option<Class>,
    text: String,
}

impl ClassText {
    fn of(&mut self, class: &Class) -> &str {
        if self.class.as_ref() != Some(class) {
            self.text = class.to_string();
            self.class = Some(class.clone());
        }
        &self.text
    }
}
