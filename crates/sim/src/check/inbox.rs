//! Every posted row ends as exactly one execution or exactly one dead letter.

use std::collections::BTreeMap;

use ff_core::change::Changes;
use ff_core::event::Fact;
use ff_core::inbox::{Fate, Posted};
use ff_core::{ExecutionId, PartitionId};
use ff_store::memory::MemoryState;

use super::Check;
use super::mirror::Mirror;

#[derive(Debug)]
struct Row {
    posted: Posted,
    /// It cannot become an execution.
    wrong: bool,
    fate: Option<Fate>,
}

#[derive(Debug, Default)]
pub struct Inbox {
    rows: BTreeMap<u64, Row>,
    by_id: BTreeMap<ExecutionId, u64>,
}

impl Inbox {
    pub fn next_number(&self) -> u64 {
        self.rows.keys().next_back().map_or(1, |newest| newest + 1)
    }

    /// The store was copied: rows that it keeps have other numbers, and nothing will be heard of the others.
    pub fn moved(&mut self, store: &MemoryState) {
        let mut rows = std::mem::take(&mut self.rows);
        let by_id = std::mem::take(&mut self.by_id);
        let partitions = || store.partitions().map(|(_, it)| it);
        let letters = partitions().flat_map(|it| it.dead_letters().map(|letter| &letter.posted));
        for posted in partitions().flat_map(|it| it.inbox()).chain(letters) {
            let row = posted.id.and_then(|id| by_id.get(&id)).and_then(|number| rows.remove(number));
            if let Some(row) = row {
                self.by_id.extend(posted.id.map(|id| (id, posted.number)));
                let posted = Posted { number: posted.number, ..row.posted };
                self.rows.insert(posted.number, Row { posted, ..row });
            }
        }
    }

    pub fn posted(&mut self, posted: Posted, wrong: bool) {
        self.by_id.extend(posted.id.map(|id| (id, posted.number)));
        self.rows.insert(posted.number, Row { posted, wrong, fate: None });
    }

    /// Takes in a commit; the mirror is as it is after it.
    pub fn committed(&mut self, changes: &Changes, after: &Mirror) -> Check {
        let created = changes.events.iter().filter(|event| matches!(event.fact, Fact::Created { .. }));
        let created: Vec<ExecutionId> = created.filter_map(|event| event.execution).collect();
        for number in created.iter().filter_map(|id| self.by_id.get(id)) {
            let taken = changes.inbox.iter().any(|(it, fate)| it == number && *fate == Fate::Taken);
            ensure!(taken, "row {number} becomes an execution and stays in the inbox");
        }
        for (number, fate) in &changes.inbox {
            let Some(row) = self.rows.get_mut(number) else {
                return Err(format!("row {number} leaves the inbox but was never posted"));
            };
            let before = row.fate.replace(fate.clone());
            ensure!(before.is_none(), "row {number} leaves the inbox again: {before:?}, then {fate:?}");
            let is_new = row.posted.id.is_some_and(|id| created.contains(&id));
            match fate {
                Fate::Taken => {
                    ensure!(!row.wrong, "row {number} is taken although it is wrong: {:?}", row.posted);
                    let existing = after.dedup.keys().any(|it| Some(&*it.key) == row.posted.key.as_deref());
                    ensure!(is_new || existing, "row {number} is taken and becomes nothing");
                }
                Fate::Dead { reason } => {
                    ensure!(!is_new, "row {number} is both an execution and a dead letter");
                    ensure!(row.may_die(reason), "row {number} is given up without need: {reason}");
                }
                Fate::Reposted | Fate::Dropped => {
                    return Err(format!("letter {number} leaves and nobody asked for it"));
                }
            }
        }
        Ok(())
    }

    /// Rows that have not left the inbox.
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().filter(|(_, row)| row.fate.is_none()).map(|(number, _)| *number)
    }

    /// Compares what became of each row with what the store keeps.
    pub fn check_store(&self, store: &MemoryState) -> Check {
        let all = || store.partitions().map(|(_, it)| it);
        let mut stored: Vec<u64> = all().flat_map(|it| it.inbox().map(|row| row.number)).collect();
        stored.sort_unstable();
        let waiting: Vec<u64> = self.waiting().collect();
        ensure!(stored == waiting, "the inbox holds {stored:?}, those that have not left are {waiting:?}");
        let dead = |row: &Row| matches!(row.fate, Some(Fate::Dead { .. }));
        let died = self.rows.values().filter(|row| dead(row)).count();
        let letters: Vec<_> = all().flat_map(|it| it.dead_letters()).collect();
        ensure!(letters.len() == died, "{} dead letters are kept, {died} rows were given up", letters.len());
        for letter in letters {
            let row = &self.rows[&letter.posted.number];
            let same =
                row.posted == letter.posted && row.fate == Some(Fate::Dead { reason: letter.reason.clone() });
            ensure!(same, "a dead letter is not what was given up: {letter:?} {row:?}");
        }
        Ok(())
    }

    /// The partition of each row that waits, for those who look why.
    pub fn stuck(&self, partitions: u16) -> Vec<(u64, PartitionId)> {
        let waiting = self.waiting().take(5);
        waiting.map(|number| (number, self.rows[&number].posted.partition(partitions))).collect()
    }
}

impl Row {
    fn may_die(&self, reason: &str) -> bool {
        let keyed = self.posted.key.is_some() && reason.starts_with("idempotency_mismatch: ");
        let refused = reason.contains("the store refused it");
        self.wrong || keyed || refused || reason.starts_with("lane_draining: ")
    }
}
