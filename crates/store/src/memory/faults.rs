//! Switches that make a memory store misbehave the way real ones do.
//!
//! Each "next n" counts commits one by one, also within one flush. When several are set, a commit meets them
//! in the order in which they stand here: lost before executing, unavailable, refused, conflict, and only a
//! commit that was executed can lose its answer.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_core::change::Changes;
use tokio::sync::Notify;

use crate::StoreError;
use crate::commit::Outcome;

type Predicate = Arc<dyn Fn(&Changes) -> bool + Send + Sync>;

#[derive(Default)]
struct Plan {
    outage: bool,
    unavailable: usize,
    refused: usize,
    refused_if: Option<Predicate>,
    conflicts: usize,
    lost_commits: usize,
    lost_answers: usize,
    failed_loads: usize,
    stalled: [bool; 3],
    /// How many calls stand before a barrier now.
    waiting: usize,
}

/// Where a call can be made to wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Barrier {
    Load,
    Commit,
    /// The commit has been executed; its answer has not left.
    Answer,
}

#[derive(Default)]
struct Shared {
    plan: Mutex<Plan>,
    released: Notify,
    arrived: Notify,
    loads: AtomicUsize,
}

/// A handle on the switches of one store; clones share them.
#[derive(Clone, Default)]
pub struct Faults(Arc<Shared>);

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Faults {
    /// The next `n` commits fail as unavailable; nothing is written.
    pub fn fail_commits(&self, n: usize) {
        self.plan().unavailable = n;
    }

    /// The next `n` commits are refused; nothing is written.
    pub fn refuse_commits(&self, n: usize) {
        self.plan().refused = n;
    }

    /// Every commit whose changes match is refused until [`clear`](Self::clear).
    pub fn refuse_if(&self, matches: impl Fn(&Changes) -> bool + Send + Sync + 'static) {
        self.plan().refused_if = Some(Arc::new(matches));
    }

    /// The next `n` commits conflict although their version is right.
    pub fn force_conflicts(&self, n: usize) {
        self.plan().conflicts = n;
    }

    /// The next `n` commits are executed, but their answer is lost.
    pub fn lose_answers(&self, n: usize) {
        self.plan().lost_answers = n;
    }

    /// The next `n` commits are lost on the way: not executed, and nobody knows.
    pub fn lose_commits(&self, n: usize) {
        self.plan().lost_commits = n;
    }

    /// The next `n` loads fail as unavailable.
    pub fn fail_loads(&self, n: usize) {
        self.plan().failed_loads = n;
    }

    /// Everything fails as unavailable until [`end_outage`](Self::end_outage).
    pub fn start_outage(&self) {
        self.plan().outage = true;
    }

    pub fn end_outage(&self) {
        self.plan().outage = false;
    }

    /// Loads and commits wait, not executed, until [`release`](Self::release).
    pub fn stall(&self) {
        let mut plan = self.plan();
        plan.stalled[Barrier::Load as usize] = true;
        plan.stalled[Barrier::Commit as usize] = true;
    }

    pub fn stall_loads(&self) {
        self.plan().stalled[Barrier::Load as usize] = true;
    }

    pub fn stall_commits(&self) {
        self.plan().stalled[Barrier::Commit as usize] = true;
    }

    /// Commits are executed, but their answers wait until [`release`](Self::release).
    pub fn stall_answers(&self) {
        self.plan().stalled[Barrier::Answer as usize] = true;
    }

    /// Lets everything that waits go on.
    pub fn release(&self) {
        self.plan().stalled = [false; 3];
        self.0.released.notify_waiters();
    }

    /// Returns once at least `n` calls stand still, so that a test need not guess.
    pub async fn until_waiting(&self, n: usize) {
        loop {
            // Registered before looking, so that no arrival in between is missed.
            let arrived = self.0.arrived.notified();
            if self.plan().waiting >= n {
                return;
            }
            arrived.await;
        }
    }

    /// How many loads there have been.
    pub fn loads(&self) -> usize {
        self.0.loads.load(Ordering::Relaxed)
    }

    /// Turns every switch off and lets everything go on.
    pub fn clear(&self) {
        let waiting = self.plan().waiting;
        *self.plan() = Plan { waiting, ..Plan::default() };
        self.0.released.notify_waiters();
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- what the store asks -------------------------------------------------------------------------

    pub(super) async fn pass(&self, barrier: Barrier) {
        loop {
            let released = self.0.released.notified();
            if !self.plan().stalled[barrier as usize] {
                return;
            }
            let _standing = Standing::new(self);
            released.await;
        }
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.plan().outage { Err(unavailable("the store is out of reach")) } else { Ok(()) }
    }

    pub(super) fn check_load(&self) -> Result<(), StoreError> {
        self.0.loads.fetch_add(1, Ordering::Relaxed);
        self.check()?;
        if take(&mut self.plan().failed_loads) { Err(unavailable("the load failed")) } else { Ok(()) }
    }

    /// What becomes of a commit instead of being executed.
    pub(super) fn instead_of(&self, changes: &Changes) -> Option<Outcome> {
        let mut plan = self.plan();
        if plan.outage {
            return Some(Outcome::Failed(unavailable("the store is out of reach")));
        }
        if take(&mut plan.lost_commits) {
            return Some(Outcome::Unknown("the connection was lost".to_owned()));
        }
        if take(&mut plan.unavailable) {
            return Some(Outcome::Failed(unavailable("the commit failed")));
        }
        if plan.refused_if.as_ref().is_some_and(|matches| matches(changes)) || take(&mut plan.refused) {
            return Some(Outcome::Failed(StoreError::Refused("the commit was refused".to_owned())));
        }
        take(&mut plan.conflicts).then_some(Outcome::Conflict)
    }

    /// The answer that leaves for a commit that was executed.
    pub(super) fn answer(&self, outcome: Outcome) -> Outcome {
        let executed = matches!(outcome, Outcome::Committed { .. });
        if executed && take(&mut self.plan().lost_answers) {
            return Outcome::Unknown("the answer was lost".to_owned());
        }
        outcome
    }
}

/// Counts a call that stands before a barrier, also if it is dropped there.
struct Standing<'a>(&'a Faults);

impl<'a> Standing<'a> {
    fn new(faults: &'a Faults) -> Standing<'a> {
        faults.plan().waiting += 1;
        faults.0.arrived.notify_waiters();
        Standing(faults)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.plan().waiting -= 1;
    }
}

fn take(left: &mut usize) -> bool {
    let some = *left > 0;
    *left -= usize::from(some);
    some
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ff_core::change::Header;
    use ff_core::{CommitId, PartitionId, Route, ServerId};

    use super::*;
    use crate::{Commit, ManualClock, MemoryStore, Store, Version};

    const P: PartitionId = PartitionId(0);

    fn store() -> (MemoryStore, Faults) {
        let store = MemoryStore::with_clock(1, Arc::new(ManualClock::at(1_000)));
        let faults = store.faults();
        (store, faults)
    }

    fn commit(n: u64, expected: Version) -> Commit {
        let changes = Changes { header: Header { next_event: n, ..Header::default() }, ..Changes::default() };
        let (id, by) = (CommitId::from_parts(0, Route(0), n), ServerId::from_parts(0, Route(0), 1));
        Commit { partition: P, expected, id, by, changes }
    }

    fn newest(store: &MemoryStore) -> u64 {
        store.inspect(|state| state.partition(P).unwrap().version().number)
    }

    #[tokio::test]
    async fn a_fault_says_whether_the_commit_was_executed() {
        type Switch = fn(&Faults);
        let cases: [(Switch, &str, u64); 7] = [
            (|it| it.fail_commits(1), "Unavailable", 0),
            (|it| it.refuse_commits(1), "Refused", 0),
            (|it| it.refuse_if(|changes| changes.header.next_event == 1), "Refused", 0),
            (|it| it.force_conflicts(1), "Conflict", 0),
            (|it| it.lose_commits(1), "Unknown", 0),
            (|it| it.lose_answers(1), "Unknown", 1),
            (Faults::start_outage, "Unavailable", 0),
        ];
        for (switch, outcome, version) in cases {
            let (store, faults) = store();
            switch(&faults);
            let outcomes = store.commit(vec![commit(1, Version::NONE)]).await;
            assert!(format!("{outcomes:?}").contains(outcome), "{outcomes:?}");
            assert_eq!(newest(&store), version, "{outcome}");
            faults.clear();
            let expected = store.load(P, vec![]).await.unwrap().version;
            let outcomes = store.commit(vec![commit(2, expected)]).await;
            assert_eq!(outcomes, [Outcome::Committed { now: 1_000 }]);
        }
    }

    #[tokio::test]
    async fn a_stalled_commit_is_executed_when_released_and_one_that_was_dropped_never() {
        let (store, faults) = store();
        faults.stall();
        let waiting = store.commit(vec![commit(1, Version::NONE)]);
        tokio::select! {
            biased;
            _ = waiting => unreachable!("it stalls"),
            () = faults.until_waiting(1) => {}
        }
        assert_eq!(newest(&store), 0);
        let (outcomes, ()) = tokio::join!(store.commit(vec![commit(2, Version::NONE)]), async {
            faults.until_waiting(1).await;
            faults.release();
        });
        assert_eq!(outcomes, [Outcome::Committed { now: 1_000 }]);
        assert_eq!(newest(&store), 1);
    }

    #[tokio::test]
    async fn a_stalled_answer_belongs_to_a_commit_that_was_executed() {
        let (store, faults) = store();
        faults.stall_answers();
        let (outcomes, ()) = tokio::join!(store.commit(vec![commit(1, Version::NONE)]), async {
            faults.until_waiting(1).await;
            assert_eq!(newest(&store), 1);
            faults.release();
        });
        assert_eq!(outcomes, [Outcome::Committed { now: 1_000 }]);
    }

    #[tokio::test]
    async fn loads_fail_as_often_as_told() {
        let (store, faults) = store();
        faults.fail_loads(1);
        assert!(matches!(store.load(P, vec![]).await, Err(StoreError::Unavailable(_))));
        assert!(store.load(P, vec![]).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_is_gone_when_its_end_was_noticed_and_it_has_not_left() {
        let (store, _) = store();
        for server in ["a", "b"] {
            store.beat(server.to_owned()).await.unwrap();
        }
        store.mark_gone("b");
        assert_eq!(store.gone().await.unwrap(), ["b"]);
        store.leave("b".to_owned()).await.unwrap();
        assert_eq!(store.gone().await.unwrap(), [""; 0]);
    }
}
