//! Bugs around the turn: whom a broken store gives it, and for how long.

use ff_core::{Ms, PartitionId, ServerId};

use super::Bug;
use crate::StoreError;
use crate::memory::MemoryState;

/// Gives the turn the way a store with this bug does.
pub fn turn(
    state: &mut MemoryState,
    bug: Option<Bug>,
    partition: PartitionId,
    server: ServerId,
    for_ms: Ms,
    now: Ms,
) -> Result<bool, StoreError> {
    let holder = state.partition(partition)?.turn(now);
    match bug {
        Some(Bug::TurnKnownToItsHandleOnly) => return Ok(true),
        Some(Bug::TurnNeverEnds) => return state.turn(partition, server, Ms::MAX, now),
        Some(Bug::TurnTakenAway) => state.partition_mut(partition)?.turn = None,
        Some(Bug::TurnProlonged) if holder == Some(server) => state.partition_mut(partition)?.turn = None,
        _ => {}
    }
    state.turn(partition, server, for_ms, now)
}
