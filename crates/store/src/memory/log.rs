//! The commit log of one partition: who wrote which version, and what it changed.

use std::collections::{BTreeSet, VecDeque};

use ff_core::key::Key;
use ff_core::{CommitId, Ms};

use crate::commit::Version;
use crate::{COMMITS_TOLD, KEYS_TOLD, Written};

/// Rows live at least this long and while there are no more than [`ROWS_KEPT`].
const ROW_LIFE_MS: Ms = 3_600_000;
const ROWS_KEPT: usize = 1_000;

#[derive(Clone, Debug)]
struct Row {
    id: CommitId,
    at: Ms,
    /// Emptied when the row is too old to be told apart.
    keys: Vec<Key>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// Consecutive versions; the last one is the newest.
    rows: VecDeque<Row>,
    newest: u64,
}

impl Log {
    pub(super) fn version(&self) -> Version {
        self.rows.back().map_or(Version::NONE, |row| Version { number: self.newest, id: row.id })
    }

    pub(super) fn append(&mut self, id: CommitId, at: Ms, keys: Vec<Key>) {
        self.rows.push_back(Row { id, at, keys });
        self.newest += 1;
        if let Some(too_old) = self.rows.len().checked_sub(COMMITS_TOLD + 1) {
            self.rows[too_old].keys = Vec::new();
        }
        while self.rows.len() > ROWS_KEPT && self.rows[0].at.saturating_add(ROW_LIFE_MS) <= at {
            self.rows.pop_front();
        }
    }

    /// The number of the oldest row that is kept.
    fn oldest(&self) -> u64 {
        self.newest + 1 - self.rows.len() as u64
    }

    pub(super) fn written(&self, number: u64) -> Written {
        if number > self.newest {
            return Written::Not;
        }
        let row = number.checked_sub(self.oldest()).and_then(|at| self.rows.get(at as usize));
        row.map_or(Written::Forgotten, |row| Written::By(row.id))
    }

    /// The records that the commits after a version have changed, unless they cannot be told apart.
    pub(super) fn missed(&self, since: u64) -> Option<BTreeSet<&Key>> {
        // A version from the future is one of another history; nothing known of it can be trusted.
        let count = self.newest.checked_sub(since)?;
        if count > COMMITS_TOLD as u64 {
            return None;
        }
        let rows = self.rows.iter().rev().take(count as usize);
        let keys: BTreeSet<&Key> = rows.flat_map(|row| &row.keys).collect();
        (keys.len() <= KEYS_TOLD).then_some(keys)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Version> + '_ {
        let numbers = self.oldest()..;
        numbers.zip(&self.rows).map(|(number, row)| Version { number, id: row.id })
    }
}
