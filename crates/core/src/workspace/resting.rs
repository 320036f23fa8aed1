//! Executions that rest: they are suspended or put off, and nobody looks at them until something comes for them. However
//! many there are, only some stay in memory; the others are read when it is their turn.

use super::Workspace;
use crate::execution::{Execution, State};
use crate::id::ExecutionId;

fn rests(execution: &Execution) -> bool {
    matches!(execution.live.state, State::Suspended(_) | State::Delayed { .. })
}

impl Workspace {
    /// Notes an execution that has been written, if it rests.
    pub(super) fn note_rest(&mut self, id: ExecutionId, execution: &Execution) {
        if rests(execution) {
            self.resting.push_back(id);
        }
    }

    /// Drops those that have rested longest until about `keep` are left. One is noted each time it begins to rest, so
    /// some may be awake again, or come once more.
    pub(super) fn evict_resting(&mut self, settled: u64, keep: usize) {
        while self.resting.len() > keep
            && let Some(id) = self.resting.pop_front()
        {
            if self.executions.is_settled(&id, settled) {
                self.executions.forget_if(&id, |it| rests(it));
            } else {
                // What follows is not stored either.
                self.resting.push_front(id);
                return;
            }
        }
    }
}
