//! The runner of one partition: batches commands, decides them on its cached view, commits, answers.
//!
//! While a batch is on its way to the store, commands queue; when there is room again, everything queued
//! becomes the next batch. The cached view is valid as long as the partition's version is the one the runner
//! last saw. If a commit conflicts, everything decided on the old view is decided again on a fresh one.

mod answering;
mod contest;
mod deciding;
mod inbox;
mod intake;
mod outcomes;
mod standing_by;

use std::collections::VecDeque;
use std::sync::Arc;

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::key::Ask;
use ff_core::limits::Limits;
use ff_core::{CommitId, Ms, PartitionId, Reply, Route, ServerId, Workspace};
use ff_store::{Status, Version};
use rustc_hash::{FxHashMap, FxHashSet};

use super::MachineStats;
use super::batch::{Batch, Decided, Global, Message, Pending};
use crate::config::MachineConfig;
use crate::failure::Failure;
use contest::Contest;

/// A server that comes later in a partition's order waits so long for each that comes before.
const LATER_MS: Ms = 500;
/// Without a commit for so long although something was due, the store was out of reach.
const OUTAGE_MS: Ms = 5_000;
/// How many ready entries are read at first.
const FIRST_REACH: usize = 128;
/// Messages that are still not acknowledged after this time are sent again by whoever sees them.
const REDELIVER_MS: Ms = 500;
/// An agenda entry that failed so often is tried once in a while only.
const FAILURES_MAX: u32 = 3;
const STUCK_RETRY_MS: Ms = 60_000;

#[derive(Debug)]
enum Phase {
    /// The partition must be read before anything can be decided.
    Closed,
    /// Commits keep conflicting; the turn is asked for before the partition is read.
    TakingTurn,
    Reading,
    Serving,
    /// The outcome of the oldest batch in flight is unknown and being found out. If nobody has written its
    /// version, an empty commit takes that place, and the lost one can never apply.
    Resolving {
        seal: Option<CommitId>,
    },
}

/// A reply that writes nothing, and the number of the version it was decided on. A commit that was on its way
/// before it was decided does not confirm it: that commit may have been carried out, and others after it,
/// before the question was even asked.
#[derive(Debug)]
struct Unconfirmed {
    on: u64,
    decided: Decided,
}

#[derive(Debug)]
pub(super) struct Runner {
    partition: PartitionId,
    server: ServerId,
    config: Arc<MachineConfig>,
    ws: Workspace,
    phase: Phase,
    /// The newest version known to be committed; `None` before the first opening.
    version: Option<Version>,
    queue: VecDeque<Pending>,
    queue_bytes: usize,
    /// Commands that wait for a load.
    parked: Vec<Pending>,
    /// Nobody who waits here gives up before this local time; it may be too early, never too late.
    give_up_from: Ms,
    /// Loads from before the newest fall-back are of another era and are ignored.
    era: u64,
    load_number: u64,
    loads: usize,
    asked: FxHashSet<Ask>,
    /// Records that were being read when others committed: read together with what was missed, so that who
    /// needs them does not lose the race again and again.
    reread: Vec<Ask>,
    /// Refills that wait for the commit of a batch: a window does not remember what changed beyond its mark
    /// before the refill was begun, so the store must know it when it answers.
    held_refills: Vec<(u64, Ask)>,
    /// How many executions were handed to workers.
    claimed: usize,
    in_flight: VecDeque<Batch>,
    /// Replies that wrote nothing and wait until the version they were decided on is confirmed.
    unconfirmed: Vec<Unconfirmed>,
    confirming: Vec<Unconfirmed>,
    /// Results for the machine itself.
    internal: Vec<(Pending, Result<Reply, Failure>)>,
    globals: Vec<Global>,
    messages: Vec<Message>,
    /// Messages of batches in flight, which must not leave yet.
    unsent: FxHashSet<AgendaKey>,
    /// Agenda entries with a command under way.
    firing: FxHashSet<AgendaKey>,
    failures: FxHashMap<AgendaKey, (u32, Ms)>,
    inbox: inbox::Inbox,
    contest: Contest,
    /// How many living servers come before this one here.
    rank: u32,
    /// Whether no other server lives.
    is_alone: bool,
    /// Claims of this server were committed here, and nobody else was seen to claim since: nobody is in the way.
    undisturbed: bool,
    /// Since when there is work here that was left to those who come before, without any of them taking some.
    left_since: Option<Ms>,
    /// Until when servers count as being in each other's way, here or elsewhere.
    pub(super) disputed_until: Ms,
    /// The newest status that was told while the partition was not served.
    seen: Option<Status>,
    /// To be read again whether or not anything here needs it at the moment.
    pub(super) wanted: bool,
    /// Somebody here waits for what others do in this partition.
    pub(super) watched: bool,
    /// The local time at which it was known last that nothing had been missed.
    pub(super) fresh_at: Option<Ms>,
    /// Smaller while a batch that the store refuses is being taken apart.
    batch_limit: usize,
    /// Not before this local time is the store tried again.
    paused_until: Option<Ms>,
    pause_ms: Ms,
    last_error: String,
    settled: u64,
    /// Partition time and the local time it was read at; it never goes back.
    base: (Ms, Ms),
    random: u64,
    stats: MachineStats,
}

impl Runner {
    pub fn new(
        partition: PartitionId,
        partitions: u16,
        server: ServerId,
        limits: Arc<Limits>,
        config: Arc<MachineConfig>,
        seed: u64,
    ) -> Runner {
        Runner {
            partition,
            server,
            ws: Workspace::new(partition, partitions, limits),
            phase: Phase::Closed,
            version: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            parked: Vec::new(),
            give_up_from: Ms::MAX,
            era: 0,
            load_number: 0,
            loads: 0,
            asked: FxHashSet::default(),
            reread: Vec::new(),
            held_refills: Vec::new(),
            claimed: 0,
            in_flight: VecDeque::new(),
            unconfirmed: Vec::new(),
            confirming: Vec::new(),
            internal: Vec::new(),
            globals: Vec::new(),
            messages: Vec::new(),
            unsent: FxHashSet::default(),
            firing: FxHashSet::default(),
            failures: FxHashMap::default(),
            inbox: inbox::Inbox::default(),
            contest: Contest::default(),
            rank: 0,
            is_alone: true,
            undisturbed: false,
            left_since: None,
            disputed_until: Ms::MIN,
            seen: None,
            wanted: false,
            watched: false,
            fresh_at: None,
            batch_limit: config.batch_max,
            paused_until: None,
            pause_ms: config.backoff_ms.0,
            last_error: String::new(),
            settled: 0,
            base: (0, 0),
            random: seed,
            stats: MachineStats::default(),
            config,
        }
    }

    /// The partition's time: the store's, as far as it is known, and never earlier than before.
    pub(super) fn now(&self, at: Ms, offset_ms: Ms) -> Ms {
        let (base_now, base_at) = self.base;
        (at + offset_ms).max(base_now + (at - base_at).max(0)).max(self.ws.header().now)
    }

    pub fn next_wake(&self, at: Ms, offset_ms: Ms) -> Option<Ms> {
        let give_up = Some(self.give_up_from).filter(|from| *from < Ms::MAX);
        let next = self.paused_until.or_else(|| self.next_work(at, offset_ms));
        next.into_iter().chain(give_up).min()
    }

    /// When there is something to do whatever arrives.
    pub(super) fn next_work(&self, at: Ms, offset_ms: Ms) -> Option<Ms> {
        match self.phase {
            // Nothing is decided before the store answers, whatever is due.
            Phase::Serving if !self.may_send() => None,
            Phase::Serving => {
                let now = self.now(at, offset_ms);
                let entries = self.ws.agenda().iter().map(|(key, _)| key);
                entries
                    .filter(|key| !self.firing.contains(key))
                    .map(|key| match (key.subject, self.failures.get(key)) {
                        (Subject::Deliver { .. }, _) => {
                            at + (key.due + REDELIVER_MS + self.late_ms() - now).max(REDELIVER_MS / 5)
                        }
                        (_, Some((_, retry_at))) => *retry_at,
                        (_, None) => at + (key.due + self.late_ms() - now),
                    })
                    .take(64)
                    .min()
            }
            Phase::Closed if self.is_wanted() => Some(at),
            Phase::Closed => {
                let due = self.seen.as_ref().and_then(|seen| seen.next_due)?;
                Some(at + (due + self.late_ms() - self.now(at, offset_ms)).max(0))
            }
            Phase::TakingTurn | Phase::Reading | Phase::Resolving { .. } => None,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.parked.is_empty()
            && self.in_flight.is_empty()
            && self.unconfirmed.is_empty()
            && self.confirming.is_empty()
    }

    pub fn add_stats(&self, stats: &mut MachineStats) {
        stats.queued += self.queue.len() + self.parked.len();
        stats.in_flight += self.in_flight.len();
        stats.batches += self.stats.batches;
        stats.commands += self.stats.commands;
        stats.conflicts += self.stats.conflicts;
        stats.turns += self.stats.turns;
        stats.unknown_outcomes += self.stats.unknown_outcomes;
        stats.fired += self.stats.fired;
        stats.stray += self.stats.stray;
        for (kind, own) in &self.stats.agenda {
            let all = stats.agenda.entry(kind.clone()).or_default();
            all.fired += own.fired;
            all.failed += own.failed;
            all.late_ms += own.late_ms;
        }
        for (key, _) in self.failures.iter().filter(|(_, (count, _))| *count >= FAILURES_MAX) {
            stats.stuck.push(format!("{} {}", key.subject.kind(), key.subject.text()));
            stats.agenda.entry(key.subject.kind().into()).or_default().stuck += 1;
        }
    }

    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    pub fn workspace(&self) -> &Workspace {
        &self.ws
    }

    pub fn settled_version(&self) -> Option<Version> {
        let settled = matches!(self.phase, Phase::Serving) && self.in_flight.is_empty();
        self.version.filter(|_| settled)
    }

    pub(super) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn commit_id(&mut self, at: Ms) -> CommitId {
        let random = self.next_random();
        CommitId::from_parts(at, Route(self.partition.0), random)
    }
}
