//! What commands look at: records by their keys. One that is not in memory stops the command until it is loaded.

use std::sync::Arc;

use super::table::Known;
use super::{Stop, Workspace};
use crate::execution::Execution;
use crate::id::{ExecutionId, InstanceId};
use crate::inbox::LetterHead;
use crate::key::{Ask, Dedup, DedupKey, Key};
use crate::lane::Lane;
use crate::name::LaneName;
use crate::rejection::Rejection;
use crate::worker::WorkerInstance;

impl Workspace {
    pub fn execution(&self, id: ExecutionId) -> Result<Option<&Arc<Execution>>, Stop> {
        match self.executions.get(&id) {
            Known::Present(execution) => Ok(Some(execution)),
            Known::Absent => Ok(None),
            Known::Unknown if self.newest.is_free(id) => Ok(None),
            Known::Unknown => Err(Stop::Need(vec![Ask::Record(Key::Execution(id))])),
        }
    }

    /// The execution if it is in memory; nothing is read to find out.
    pub fn known_execution(&self, id: ExecutionId) -> Option<&Arc<Execution>> {
        self.execution(id).unwrap_or(None)
    }

    /// The execution, or the rejection that there is none.
    pub fn require(&self, id: ExecutionId) -> Result<&Arc<Execution>, Stop> {
        self.execution(id)?
            .ok_or_else(|| Rejection::NotFound { what: "execution".into(), id: id.to_string() }.into())
    }

    pub fn is_cached(&self, id: ExecutionId) -> bool {
        !matches!(self.executions.get(&id), Known::Unknown)
    }

    pub fn dedup(&self, key: &DedupKey) -> Result<Option<Dedup>, Stop> {
        match self.dedup.get(key) {
            Known::Present(dedup) => Ok(Some(*dedup)),
            Known::Absent => Ok(None),
            Known::Unknown => Err(Stop::Need(vec![Ask::Record(Key::Dedup(key.clone()))])),
        }
    }

    /// The lane's settings; a lane nobody has changed has the default ones.
    pub fn lane(&self, name: &LaneName) -> Arc<Lane> {
        match self.lanes.get(name) {
            Known::Present(lane) => lane.clone(),
            _ => Arc::new(Lane::default_of(name.clone())),
        }
    }

    pub fn worker(&self, instance: InstanceId) -> Option<&Arc<WorkerInstance>> {
        match self.workers.get(&instance) {
            Known::Present(worker) => Some(worker),
            _ => None,
        }
    }

    pub fn workers(&self) -> impl Iterator<Item = &Arc<WorkerInstance>> {
        self.workers.values()
    }

    /// Executions whose lease this instance holds in this partition.
    pub fn leases_of(&self, instance: InstanceId) -> impl Iterator<Item = ExecutionId> + '_ {
        self.leases.get(&instance).into_iter().flatten().copied()
    }

    /// The dead letter with this number, or the rejection that there is none.
    pub fn require_letter(&self, number: u64) -> Result<LetterHead, Stop> {
        match (self.letters.get(&number), number.checked_sub(1)) {
            (Known::Present(letter), _) => Ok(letter.clone()),
            (Known::Unknown, Some(after)) => Err(Stop::Need(vec![Ask::DeadLetters { after, limit: 1 }])),
            // Numbers begin with 1.
            (Known::Unknown, None) | (Known::Absent, _) => {
                Err(Rejection::NotFound { what: "dead letter".into(), id: number.to_string() }.into())
            }
        }
    }
}
