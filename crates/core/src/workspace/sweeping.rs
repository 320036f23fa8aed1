//! When the next sweep is due, and the page that one works on.

use super::{Stop, SweepPage, Workspace};
use crate::Ms;
use crate::agenda::{AgendaKey, Subject};
use crate::key::Ask;

impl Workspace {
    /// The page a sweep works on; loaded on demand and used once.
    pub fn take_sweep_page(&mut self, ask: Ask) -> Result<SweepPage, Stop> {
        self.sweep_page.take().ok_or_else(|| Stop::Need(vec![ask]))
    }

    /// Makes sure that a sweep happens at the given time or before.
    pub fn sweep_by(&mut self, at: Ms) {
        self.batch_sweep_by = Some(self.batch_sweep_by.map_or(at, |first| first.min(at)));
        if self.header.sweep_at.is_none_or(|sweep_at| sweep_at > at) {
            self.set_sweep(Some(at));
        }
    }

    /// Plans the sweep after one that has just worked on a page: for what the page says comes next, and for
    /// what was written since the page was read and is not on it.
    pub fn plan_sweep(&mut self, next: Option<Ms>, not_before: Ms) {
        let written = self.recent.sweep_by().into_iter().chain(self.batch_sweep_by);
        let dead = self.workers.values().filter_map(|worker| worker.remove_at());
        let retired = self.passing_keys().filter_map(|key| key.retires_at);
        let next = next.into_iter().chain(written).chain(dead).chain(retired);
        // What is kept until something else goes has no time of its own.
        let next = next.filter(|at| *at < Ms::MAX).min();
        self.set_sweep(next.map(|at| at.max(not_before)));
    }

    pub fn set_sweep(&mut self, at: Option<Ms>) {
        let entry = |due| AgendaKey { due, subject: Subject::Sweep };
        if let Some(before) = self.header.sweep_at {
            self.agenda.remove(&entry(before));
        }
        if let Some(after) = at {
            self.agenda.add(entry(after), None);
        }
        self.header.sweep_at = at;
    }

    pub fn trim_events_below(&mut self, number: u64) {
        self.lists.events_trimmed_below = Some(number);
    }
}
