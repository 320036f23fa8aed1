//! Several servers commit to one partition: who keeps losing gets the turn.

use ff_core::Ms;
use ff_store::StoreError;

use super::super::Output;
use super::{Phase, Runner};

/// After so many conflicts in a row the turn is asked for.
const CONFLICTS_MAX: u32 = 2;
/// How long a turn lasts: long enough to read and commit once, also for a server that is far from the store.
const TURN_MS: (Ms, Ms) = (200, 1_000);
const TURN_ROUND_TRIPS: Ms = 4;
/// How long whoever meets another's turn steps back.
const STEP_BACK_MS: (Ms, Ms) = (5, 40);

#[derive(Debug, Default)]
pub(super) struct Contest {
    /// Conflicts since the last commit.
    conflicts: u32,
    /// The turn is ours, until something is committed.
    turn: bool,
    /// How long the last commit that conflicted was on its way and back.
    round_trip_ms: Ms,
}

impl Contest {
    pub(super) fn lost(&mut self, round_trip_ms: Ms) {
        self.conflicts = self.conflicts.saturating_add(1);
        self.round_trip_ms = round_trip_ms;
    }

    pub(super) fn won(&mut self) {
        self.conflicts = 0;
    }

    /// A commit leaves; whatever becomes of it, the turn ends with it or has ended.
    pub(super) fn spend_turn(&mut self) -> bool {
        std::mem::take(&mut self.turn)
    }

    pub(super) fn has_turn(&self) -> bool {
        self.turn
    }

    pub(super) fn is_on(&self) -> bool {
        self.conflicts > 0
    }
}

impl Runner {
    /// Asks for the turn if commits keep conflicting; otherwise the partition can be read at once.
    pub(super) fn takes_turn(&mut self, outputs: &mut Vec<Output>) -> bool {
        if self.contest.conflicts < CONFLICTS_MAX || self.contest.turn {
            return false;
        }
        self.phase = Phase::TakingTurn;
        let for_ms = (self.contest.round_trip_ms * TURN_ROUND_TRIPS).clamp(TURN_MS.0, TURN_MS.1);
        outputs.push(Output::Turn { partition: self.partition, server: self.server, for_ms });
        true
    }

    pub fn turn_given(&mut self, at: Ms, result: Result<bool, StoreError>) {
        if !matches!(self.phase, Phase::TakingTurn) {
            return;
        }
        self.phase = Phase::Closed;
        match result {
            Ok(true) => {
                self.stats.turns += 1;
                self.contest.turn = true;
            }
            // Asked for again after the pause: whoever has it now will have spent it by then.
            Ok(false) => self.step_back(at),
            Err(error) => self.pause(at, error.to_string()),
        }
    }

    /// Lets the holder of the turn commit before the next try. The pause is random, so that those who wait do
    /// not all come back at once.
    pub(super) fn step_back(&mut self, at: Ms) {
        let span = (STEP_BACK_MS.1 - STEP_BACK_MS.0 + 1).unsigned_abs();
        let pause = STEP_BACK_MS.0 + (self.next_random() % span) as Ms;
        self.paused_until = Some(at + pause);
    }
}
