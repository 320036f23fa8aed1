//! A worker instance: one process of a worker program, as the system knows it.
//!
//! The record's home is the partition of the instance's id; every other partition has a copy, so that a
//! drained or dead instance gets nothing anywhere. The home alone watches the heartbeat.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::agenda::{AgendaKey, Subject};
use crate::class::Capabilities;
use crate::id::InstanceId;
use crate::name::{LaneName, WorkerName};
use crate::state::words;

words!(
    /// Whether a worker instance gets work.
    WorkerMode {
        Active = "active",
        Draining = "draining",
        Dead = "dead",
    }
);

/// A worker instance as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInstance {
    pub instance: InstanceId,
    pub name: WorkerName,
    pub lanes: Vec<LaneName>,
    #[serde(default, skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Box<str>>,
    /// The process it lives in, if that process embeds the engine; its end is this instance's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<str>>,
    /// The token with which it was registered; whoever is limited to namespaces touches no other instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Box<str>>,
    pub mode: WorkerMode,
    pub registered_at: Ms,
    pub ttl_ms: Ms,
    /// When it counts as dead unless it is heard of; at home only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Ms>,
    /// When its entry in the home's agenda is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Ms>,
    /// When it died, and since when its leases in this partition are being given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releasing_since: Option<Ms>,
    /// Grows with each change of mode.
    pub revision: u64,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

/// How long a dead worker instance is still listed.
const DEAD_KEPT_MS: Ms = 24 * 3_600_000;

impl WorkerInstance {
    /// When a dead instance may be forgotten.
    pub fn remove_at(&self) -> Option<Ms> {
        self.died_at.map(|at| at.saturating_add(DEAD_KEPT_MS))
    }

    /// What other partitions are told: only the home watches over its silence.
    pub fn copy(&self) -> WorkerInstance {
        WorkerInstance { expires_at: None, timer: None, ..self.clone() }
    }

    /// The agenda entries that this record calls for.
    pub fn agenda(&self) -> impl Iterator<Item = AgendaKey> {
        let timer = self.timer.map(|due| AgendaKey { due, subject: Subject::WorkerTimer(self.instance) });
        let leases =
            self.releasing_since.map(|due| AgendaKey { due, subject: Subject::WorkerLeases(self.instance) });
        timer.into_iter().chain(leases)
    }
}
