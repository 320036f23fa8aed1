//! Tasks that were handed out over HTTP and that their worker has not confirmed to have.
//!
//! An answer can be lost on its way. A claim therefore carries a number: the same number again gives the same tasks, the
//! next number says that they arrived. A heartbeat says so, too; but its answer can be lost as well, so the tasks are kept
//! until the next number comes or the time to confirm is over. What nobody confirms in time is given back, and costs no
//! attempt. Where servers share a store, a worker may confirm at another one; so what it has renewed stays its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ff_core::commands::Release;
use ff_core::execution::Fence;
use ff_core::{ExecutionId, InstanceId, Ms};
use ff_engine::{Engine, Task};

/// How long a worker may take to confirm what it has got.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// How fast an answer comes at least, in bytes each second: a large one is still on its way when a small one is confirmed.
const ANSWER_BYTES_PER_S: u64 = 256 << 10;

/// How long a worker may take to get and confirm an answer of this size.
fn confirmed_within(bytes: u64) -> Duration {
    CONFIRM_WITHIN + Duration::from_millis(bytes.saturating_mul(1_000) / ANSWER_BYTES_PER_S)
}

/// A worker that has not claimed for so long is forgotten; what it had is confirmed or given back long before.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// How long a server that shares its store waits before it gives back what it handed out: the worker may have confirmed
/// it elsewhere. If it has it, it renews it after a third of the lease, and everybody sees that.
fn renewed_within(lease_ms: Ms) -> Duration {
    Duration::from_millis(u64::try_from(lease_ms).unwrap_or(0)) * 2 / 3
}

/// The claims of all workers of this server.
#[derive(Debug, Default)]
pub struct Claims(Mutex<Claimants>);

#[derive(Debug, Default)]
struct Claimants {
    all: HashMap<InstanceId, Arc<Claimant>>,
    /// How many there may be before it is looked who has gone.
    look_at: usize,
}

impl Claimants {
    /// Forgets who has gone without a word. Each claim pays for its part of the search.
    fn forget_the_gone(&mut self, now: Instant) {
        if self.all.len() < self.look_at.max(64) {
            return;
        }
        self.all.retain(|_, it| Arc::strong_count(it) > 1 || !it.is_gone(now));
        self.look_at = self.all.len() * 2;
    }
}

/// The claims of one worker.
#[derive(Debug, Default)]
pub struct Claimant {
    /// One claim at a time: a repeated one waits for the first to end.
    pub turn: tokio::sync::Mutex<()>,
    handed: Mutex<Handed>,
}

#[derive(Debug, Default)]
struct Handed {
    /// When it last claimed.
    claimed_at: Option<Instant>,
    poll: Option<u64>,
    tasks: Arc<Vec<Task>>,
    /// By execution, the lease and when it ended when it was handed out.
    unconfirmed: HashMap<ExecutionId, (Fence, Ms)>,
}

impl Claims {
    pub fn of(&self, instance: InstanceId) -> Arc<Claimant> {
        let mut claimants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claimants.forget_the_gone(Instant::now());
        claimants.all.entry(instance).or_default().clone()
    }

    /// A worker that has gone.
    pub fn forget(&self, instance: InstanceId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.remove(&instance);
    }

    /// The worker speaks of these leases, so it has them.
    pub fn confirm(&self, instance: InstanceId, leases: impl IntoIterator<Item = Fence>) {
        let claimant = self.0.lock().unwrap_or_else(PoisonError::into_inner).all.get(&instance).cloned();
        let Some(claimant) = claimant else { return };
        let mut handed = claimant.handed.lock().unwrap_or_else(PoisonError::into_inner);
        for fence in leases {
            // One that it held before says nothing about one whose answer may be lost.
            if handed.unconfirmed.get(&fence.execution).is_some_and(|(unconfirmed, _)| *unconfirmed == fence)
            {
                handed.unconfirmed.remove(&fence.execution);
            }
        }
    }
}

impl Claimant {
    fn is_gone(&self, now: Instant) -> bool {
        let handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.claimed_at.is_none_or(|at| now.saturating_duration_since(at) > FORGET_AFTER)
    }

    /// The answer to a claim that was answered before; any other number confirms what was handed out.
    pub fn earlier(&self, poll: u64) -> Option<Arc<Vec<Task>>> {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.claimed_at = Some(Instant::now());
        if handed.poll == Some(poll) {
            return Some(handed.tasks.clone());
        }
        // What it has by now must not take room while the next claim waits.
        (handed.poll, handed.tasks) = (None, Arc::default());
        handed.unconfirmed.clear();
        None
    }

    /// Keeps what is handed out until it is confirmed, and gives it back otherwise.
    pub fn hand_out(self: &Arc<Self>, engine: &Engine, poll: u64, tasks: Vec<Task>) -> Arc<Vec<Task>> {
        let tasks = Arc::new(tasks);
        let leases = tasks.iter().filter_map(|task| Some((&task.execution, task.execution.lease()?)));
        let unconfirmed = leases.clone().map(|(it, lease)| (it.id, (it.fence(), lease.expires_at))).collect();
        let shortest = leases.map(|(_, lease)| lease.expires_at - lease.acquired_at).min().unwrap_or(0);
        {
            let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
            let claimed_at = Some(Instant::now());
            *handed = Handed { claimed_at, poll: Some(poll), tasks: tasks.clone(), unconfirmed };
        }
        if !tasks.is_empty() {
            let (claimant, engine) = (self.clone(), engine.clone());
            let within = confirmed_within(tasks.iter().map(|task| task.bytes() as u64).sum());
            tokio::spawn(async move {
                tokio::time::sleep(within).await;
                claimant.let_go(poll);
                if !engine.serves_alone() {
                    tokio::time::sleep(renewed_within(shortest).saturating_sub(within)).await;
                }
                claimant.give_back(&engine, poll).await;
            });
        }
        tasks
    }

    /// Forgets what was handed out for a claim if all of it is confirmed: a worker may be busy with it for hours.
    pub fn let_go(&self, poll: u64) {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        if handed.poll == Some(poll) && handed.unconfirmed.is_empty() {
            (handed.poll, handed.tasks) = (None, Arc::default());
        }
    }

    /// Gives back what was handed out for a claim and is still not confirmed.
    pub async fn give_back(&self, engine: &Engine, poll: u64) {
        let lost: Vec<(Fence, Ms)> = {
            let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
            if handed.poll != Some(poll) || handed.unconfirmed.is_empty() {
                return;
            }
            // Asked again, this claim would now get tasks it no longer has.
            (handed.poll, handed.tasks) = (None, Arc::default());
            handed.unconfirmed.drain().map(|(_, lease)| lease).collect()
        };
        tracing::info!(count = lost.len(), "tasks were not confirmed by their worker and are given back");
        let release = |(fence, ends_at)| Release { fence, if_ends_at: Some(ends_at) }.into();
        let releases = lost.into_iter().map(release).collect();
        // One that has been renewed, ended or lost meanwhile refuses, which is as good.
        let _ = engine.execute_all(releases).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_time_to_renew_what_it_may_have_confirmed_elsewhere() {
        assert_eq!(renewed_within(30_000), Duration::from_secs(20));
        assert_eq!(renewed_within(-1), Duration::ZERO);
    }

    #[test]
    fn what_was_handed_out_takes_no_room_while_the_next_claim_waits() {
        let claimant = Claimant::default();
        let tasks = Arc::<Vec<Task>>::default();
        let kept = Arc::downgrade(&tasks);
        *claimant.handed.lock().unwrap() = Handed { poll: Some(1), tasks, ..Handed::default() };
        assert!(claimant.earlier(1).is_some());
        assert!(claimant.earlier(2).is_none());
        assert!(kept.upgrade().is_none());
    }

    #[test]
    fn a_large_answer_may_take_longer_than_a_small_one() {
        assert_eq!(confirmed_within(0), CONFIRM_WITHIN);
        assert_eq!(confirmed_within(4 << 20), CONFIRM_WITHIN + Duration::from_secs(16));
    }

    #[test]
    fn workers_that_have_gone_without_a_word_are_forgotten() {
        let id = |n| InstanceId::from_parts(1, ff_core::Route(0), n);
        let claims = Claims::default();
        let waiting = claims.of(id(0));
        (1..64).for_each(|n| drop(claims.of(id(n)).earlier(1)));
        let later = Instant::now() + FORGET_AFTER + Duration::from_secs(1);
        let mut claimants = claims.0.lock().unwrap();
        claimants.forget_the_gone(Instant::now());
        assert_eq!(claimants.all.len(), 64, "they have just claimed");
        claimants.look_at = 0;
        claimants.forget_the_gone(later);
        assert_eq!(claimants.all.len(), 1, "only the one that waits is left");
        drop(waiting);
    }
}
