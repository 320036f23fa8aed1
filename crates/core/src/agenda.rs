//! The agenda: everything that happens later, in the order in which it is due.
//!
//! Most entries are derived from the record they belong to (an execution's timer, a flow's walk, a worker's
//! expiry, the partition's sweep), so an entry and its reason cannot drift apart. Messages to other partitions carry
//! their own content.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::id::{ExecutionId, FlowId, InstanceId, PartitionId};
use crate::message::Message;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "subject", rename_all = "snake_case")]
pub enum Subject {
    /// The earliest guard of an execution.
    Timer(ExecutionId),
    /// A worker instance that may have stopped.
    WorkerTimer(InstanceId),
    /// The leases of a dead worker instance.
    WorkerLeases(InstanceId),
    /// Ended executions, idempotency keys and events that are old enough to go.
    Sweep,
    /// A member whose ending or decision is still being passed on to its neighbours.
    Cascade(ExecutionId),
    /// A flow whose members are being visited: to be cancelled, or because it was sealed.
    Members(FlowId),
    /// Child executions that an ended execution has left behind.
    Children(ExecutionId),
    /// Frames of an execution that may be too old.
    Frames(ExecutionId),
    /// A message that another partition has not acknowledged.
    Deliver { to: PartitionId, number: u64 },
}

impl Subject {
    pub fn kind(&self) -> &'static str {
        match self {
            Subject::Timer(_) => "timer",
            Subject::WorkerTimer(_) => "worker_timer",
            Subject::WorkerLeases(_) => "worker_leases",
            Subject::Sweep => "sweep",
            Subject::Cascade(_) => "cascade",
            Subject::Members(_) => "members",
            Subject::Children(_) => "children",
            Subject::Frames(_) => "frames",
            Subject::Deliver { .. } => "deliver",
        }
    }

    pub const KINDS: [&'static str; 9] = [
        "timer",
        "worker_timer",
        "worker_leases",
        "sweep",
        "cascade",
        "members",
        "children",
        "frames",
        "deliver",
    ];

    /// The subject as text, for stores that keep kind and subject in columns.
    pub fn text(&self) -> String {
        match self {
            Subject::Timer(id) | Subject::Cascade(id) | Subject::Children(id) | Subject::Frames(id) => {
                id.to_string()
            }
            Subject::Members(id) => id.to_string(),
            Subject::WorkerTimer(id) | Subject::WorkerLeases(id) => id.to_string(),
            Subject::Sweep => String::new(),
            Subject::Deliver { to, number } => format!("{to}/{number:020}"),
        }
    }

    /// Reads back what [`kind`](Self::kind) and [`text`](Self::text) wrote.
    pub fn from_text(kind: &str, text: &str) -> Option<Subject> {
        Some(match kind {
            "timer" => Subject::Timer(text.parse().ok()?),
            "worker_timer" => Subject::WorkerTimer(text.parse().ok()?),
            "worker_leases" => Subject::WorkerLeases(text.parse().ok()?),
            "sweep" => Subject::Sweep,
            "cascade" => Subject::Cascade(text.parse().ok()?),
            "members" => Subject::Members(text.parse().ok()?),
            "children" => Subject::Children(text.parse().ok()?),
            "frames" => Subject::Frames(text.parse().ok()?),
            "deliver" => {
                let (to, number) = text.split_once('/')?;
                Subject::Deliver { to: PartitionId(to.parse().ok()?), number: number.parse().ok()? }
            }
            _ => return None,
        })
    }
}

/// Oldest due first; the subject makes it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AgendaKey {
    pub due: Ms,
    pub subject: Subject,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct AgendaEntry {
    pub key: AgendaKey,
    /// The content of a message to deliver.
    pub message: Option<Arc<Message>>,
}

/// A change that waits for a refill: the key, and the entry's content unless it was removed.
type Pending = (AgendaKey, Option<Option<Arc<Message>>>);

/// The front of a partition's agenda in memory: everything due up to the mark.
///
/// The mark is a due time, not a key, so that the order of subjects within one millisecond is each store's
/// own business.
#[derive(Debug)]
pub struct Agenda {
    entries: BTreeMap<AgendaKey, Option<Arc<Message>>>,
    /// Every entry due at or before it is in `entries`.
    mark: Ms,
    /// Changes beyond the mark since a refill was asked for.
    pending: Option<Vec<Pending>>,
}

impl Default for Agenda {
    fn default() -> Self {
        Agenda { entries: BTreeMap::new(), mark: Ms::MIN, pending: None }
    }
}

impl Agenda {
    /// Forgets everything; the next refill starts at the beginning.
    pub fn reset(&mut self) {
        *self = Agenda::default();
    }

    /// Whether every entry that exists is in memory.
    pub fn is_whole(&self) -> bool {
        self.mark == Ms::MAX
    }

    pub fn mark(&self) -> Ms {
        self.mark
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&AgendaKey, &Option<Arc<Message>>)> {
        self.entries.iter()
    }

    pub fn contains(&self, key: &AgendaKey) -> bool {
        self.entries.contains_key(key)
    }

    /// An entry that is in memory.
    pub fn entry(&self, key: &AgendaKey) -> Option<AgendaEntry> {
        self.entries.get(key).map(|message| AgendaEntry { key: *key, message: message.clone() })
    }

    /// When the first entry in memory is due.
    pub fn next_due(&self) -> Option<Ms> {
        self.entries.first_key_value().map(|(key, _)| key.due)
    }

    /// No entry, in memory or not, is due before this.
    pub fn none_before(&self) -> Ms {
        self.next_due().unwrap_or(self.mark.saturating_add(1))
    }

    /// Notes an entry, if the window reaches it.
    pub fn add(&mut self, key: AgendaKey, message: Option<Arc<Message>>) {
        if key.due <= self.mark {
            self.entries.insert(key, message);
        } else if let Some(pending) = &mut self.pending {
            pending.push((key, Some(message)));
        }
    }

    /// Forgets an entry.
    pub fn remove(&mut self, key: &AgendaKey) {
        if key.due <= self.mark {
            self.entries.remove(key);
        } else if let Some(pending) = &mut self.pending {
            pending.push((*key, None));
        }
    }

    /// Forgets entries by what they are about.
    pub(crate) fn forget(&mut self, which: impl Fn(&AgendaKey) -> bool) {
        self.entries.retain(|key, _| !which(key));
    }

    /// Starts a refill and returns the due time to read after, unless none is needed now.
    pub fn start_refill(&mut self) -> Option<Ms> {
        if self.is_whole() || self.pending.is_some() {
            return None;
        }
        self.pending = Some(Vec::new());
        Some(self.mark)
    }

    /// Takes in the entries due after the old mark up to and including `reached` (`Ms::MAX`: all there are).
    pub fn finish_refill(&mut self, loaded: impl IntoIterator<Item = AgendaEntry>, reached: Ms) {
        let Some(pending) = self.pending.take() else { return };
        self.mark = reached;
        self.entries.extend(loaded.into_iter().map(|entry| (entry.key, entry.message)));
        for (key, change) in pending {
            match change {
                Some(message) if key.due <= self.mark => drop(self.entries.insert(key, message)),
                Some(_) => {}
                None => drop(self.entries.remove(&key)),
            }
        }
    }

    /// The refill failed; another may be started.
    pub fn cancel_refill(&mut self) {
        self.pending = None;
    }

    /// Gives back memory: keeps about the first `keep` entries, cut between two due times.
    pub fn shrink(&mut self, keep: usize) {
        if self.entries.len() <= keep || self.pending.is_some() {
            return;
        }
        let Some(cut) = self.entries.keys().nth(keep).map(|key| key.due) else { return };
        // The lowest subject of the cut's own time, so that no time is split.
        let from = AgendaKey { due: cut, subject: Subject::Timer(ExecutionId(uuid::Uuid::nil())) };
        let dropped = self.entries.split_off(&from);
        match self.entries.last_key_value() {
            Some((last, _)) => self.mark = last.due,
            None => self.entries = dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Route;

    fn timer(due: Ms, n: u64) -> AgendaEntry {
        let subject = Subject::Timer(ExecutionId::from_parts(0, Route(0), n));
        AgendaEntry { key: AgendaKey { due, subject }, message: None }
    }

    fn dues(agenda: &Agenda) -> Vec<Ms> {
        agenda.iter().map(|(key, _)| key.due).collect()
    }

    #[test]
    fn subjects_read_back_from_their_text() {
        let id = ExecutionId::from_parts(5, Route(6), 7);
        let instance = InstanceId::from_parts(5, Route(6), 7);
        for subject in [
            Subject::Timer(id),
            Subject::WorkerTimer(instance),
            Subject::WorkerLeases(instance),
            Subject::Sweep,
            Subject::Cascade(id),
            Subject::Members(FlowId::from_parts(5, Route(6), 7)),
            Subject::Children(id),
            Subject::Frames(id),
            Subject::Deliver { to: PartitionId(3), number: 12 },
        ] {
            assert_eq!(Subject::from_text(subject.kind(), &subject.text()), Some(subject));
            assert!(Subject::KINDS.contains(&subject.kind()));
        }
        assert_eq!(Subject::from_text("banana", ""), None);
    }

    #[test]
    fn a_refill_keeps_what_changed_meanwhile() {
        let mut agenda = Agenda::default();
        assert_eq!(agenda.start_refill(), Some(Ms::MIN));
        agenda.add(timer(15, 9).key, None);
        agenda.remove(&timer(10, 1).key);
        agenda.add(timer(90, 8).key, None);
        agenda.finish_refill([timer(10, 1), timer(20, 2)], 20);
        assert_eq!(dues(&agenda), [15, 20]);
        agenda.add(timer(30, 3).key, None);
        assert_eq!(dues(&agenda), [15, 20]);
        agenda.start_refill();
        agenda.finish_refill([timer(30, 3), timer(90, 8)], Ms::MAX);
        assert_eq!(dues(&agenda), [15, 20, 30, 90]);
        assert!(agenda.is_whole());
    }

    #[test]
    fn shrinking_never_splits_a_millisecond() {
        let mut agenda = Agenda::default();
        agenda.start_refill();
        agenda.finish_refill([timer(1, 1), timer(2, 2), timer(2, 3), timer(3, 4)], Ms::MAX);
        agenda.shrink(2);
        assert_eq!(dues(&agenda), [1]);
        assert_eq!(agenda.mark(), 1);
        agenda.shrink(0);
        assert_eq!(dues(&agenda), [1]);
    }
}
