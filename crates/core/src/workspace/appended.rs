//! What a batch appends to lists that only grow.

use rustc_hash::{FxHashMap, FxHashSet};

use super::mail::Kept;
use crate::agenda::{AgendaEntry, AgendaKey};
use crate::attempt::Attempt;
use crate::event::Event;
use crate::id::ExecutionId;
use crate::inbox::Fate;
use crate::payload::{Payload, PayloadKey};
use crate::step::Step;
use crate::stream::{Frame, Trim};
use crate::suspension::Signal;

/// What a batch appends; a command that does not stand is cut off again.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub events: Vec<Event>,
    pub payloads: Vec<(PayloadKey, Payload)>,
    pub attempts: Vec<(ExecutionId, Attempt)>,
    pub agenda_added: Vec<AgendaEntry>,
    /// With the content it had in memory, which a command that does not stand puts back.
    pub agenda_removed: Vec<(AgendaKey, Option<AgendaEntry>)>,
    pub events_trimmed_below: Option<u64>,
    /// Executions removed, each with how much was listed before.
    pub purged: Vec<(ExecutionId, Kept)>,
    pub inbox: Vec<(u64, Fate)>,
    pub signals: Vec<Signal>,
    pub steps: Vec<Step>,
    pub frames: Vec<Frame>,
    pub trims: Vec<Trim>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Marks {
    pub events: usize,
    pub payloads: usize,
    pub attempts: usize,
    pub agenda_added: usize,
    pub agenda_removed: usize,
    pub events_trimmed_below: Option<u64>,
    pub purged: usize,
    pub inbox: usize,
    pub signals: usize,
    pub steps: usize,
    pub frames: usize,
    pub trims: usize,
}

impl Lists {
    /// Drops what the batch itself has made pointless: payloads, attempts and traces of what was removed after,
    /// results that a later result replaces, and messages that were sent and struck.
    pub fn leave_out_overwritten(&mut self) {
        let sent = self.agenda_added.len();
        let struck: FxHashSet<AgendaKey> = self.agenda_removed.iter().map(|(key, _)| *key).collect();
        let added: FxHashSet<AgendaKey> = self.agenda_added.iter().map(|entry| entry.key).collect();
        self.agenda_added.retain(|entry| !struck.contains(&entry.key));
        if self.agenda_added.len() != sent {
            self.agenda_removed.retain(|(key, _)| !added.contains(key));
        }
        let purged = std::mem::take(&mut self.purged).into_iter();
        let purged: FxHashMap<ExecutionId, Kept> = purged.collect();
        self.leave_out_traces(&purged);
        let mut numbers = 0..;
        self.attempts.retain(|(id, _)| {
            let number = numbers.next().unwrap_or(0);
            purged.get(id).is_none_or(|kept| number >= kept.attempts)
        });
        let newest: FxHashMap<PayloadKey, usize> =
            self.payloads.iter().enumerate().map(|(number, (key, _))| (*key, number)).collect();
        let mut numbers = 0..;
        self.payloads.retain(|(key, _)| {
            let number = numbers.next().unwrap_or(0);
            newest[key] == number && purged.get(&key.execution).is_none_or(|kept| number >= kept.payloads)
        });
    }
}
