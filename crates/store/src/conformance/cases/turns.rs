//! The turn: a server that keeps losing gets to commit once.

use ff_core::change::Changes;
use ff_core::{Ms, PartitionId, ServerId};

use super::super::stand::SERVER;
use super::super::{Check, Stand, ensure, ensure_eq};
use crate::{Commit, Outcome, StoreError};

const RIVAL: ServerId = ServerId(uuid::Uuid::from_u128(2));
const FOR_MS: Ms = 200;

/// Whether an empty commit of a server on the newest version is written.
async fn writes(stand: &mut Stand, partition: PartitionId, by: ServerId) -> Result<bool, String> {
    let (expected, id) = (stand.version(partition).await?, stand.new_id());
    let changes = Changes::default();
    match stand.send(Commit { partition, expected, id, by, changes }).await? {
        Outcome::Committed { .. } => Ok(true),
        Outcome::Conflict => {
            ensure_eq!(stand.version(partition).await?, expected, "version after a conflict");
            Ok(false)
        }
        other => Err(format!("a commit on the newest version: {other:?}")),
    }
}

async fn turn(stand: &Stand, partition: PartitionId, server: ServerId) -> Result<bool, String> {
    stand.store.turn(partition, server, FOR_MS).await.map_err(|error| format!("turn: {error}"))
}

pub async fn others_conflict_until_the_holder_of_the_turn_has_committed(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for _ in 0..3 {
        ensure!(turn(stand, partition, SERVER).await?, "the turn of a partition where nobody has it");
        ensure!(!writes(stand, partition, RIVAL).await?, "a rival commits in another's turn");
        for other in stand.each().filter(|it| *it != partition) {
            ensure!(writes(stand, other, RIVAL).await?, "a turn of {partition} stops commits of {other}");
        }
        // A conflict of its holder does not end it.
        let (expected, id) = (crate::Version { number: 99, id: stand.new_id() }, stand.new_id());
        let stale = Commit { partition, expected, id, by: SERVER, changes: Changes::default() };
        ensure_eq!(stand.send(stale).await?, Outcome::Conflict, "a commit of the holder on another version");
        ensure!(!writes(stand, partition, RIVAL).await?, "a rival commits after the holder lost a commit");
        ensure!(writes(stand, partition, SERVER).await?, "the holder does not commit in its turn");
        ensure!(writes(stand, partition, RIVAL).await?, "the turn goes on after its holder's commit");
    }
    Ok(())
}

pub async fn a_turn_stops_the_commits_of_other_handles(stand: &mut Stand) -> Check {
    let (partition, other) = (stand.last(), stand.another().await?);
    ensure_eq!(other.turn(partition, RIVAL, FOR_MS).await, Ok(true), "the turn over another handle");
    ensure!(!turn(stand, partition, SERVER).await?, "a turn is taken away from another handle");
    ensure!(!writes(stand, partition, SERVER).await?, "a commit in the turn of another handle's server");
    stand.reopen().await?;
    ensure!(!writes(stand, partition, SERVER).await?, "a commit after reopening, in another's turn");
    stand.clock.advance(FOR_MS);
    ensure!(writes(stand, partition, SERVER).await?, "a commit after the other's turn");
    other.close().await;
    Ok(())
}

pub async fn a_turn_ends_with_its_time(stand: &mut Stand) -> Check {
    let partition = stand.last();
    ensure!(turn(stand, partition, SERVER).await?, "the turn of a fresh partition");
    stand.clock.advance(FOR_MS - 1);
    ensure!(!writes(stand, partition, RIVAL).await?, "a rival commits in the last moment of a turn");
    stand.clock.advance(1);
    ensure!(writes(stand, partition, RIVAL).await?, "a rival does not commit after a turn");
    ensure!(turn(stand, partition, RIVAL).await?, "the turn after another's is over");
    ensure!(!writes(stand, partition, SERVER).await?, "whoever had the turn before commits in another's");
    Ok(())
}

pub async fn a_turn_is_neither_prolonged_nor_taken_away(stand: &mut Stand) -> Check {
    let partition = stand.last();
    ensure!(turn(stand, partition, SERVER).await?, "the turn of a fresh partition");
    ensure!(!turn(stand, partition, RIVAL).await?, "a rival takes a turn away");
    stand.clock.advance(FOR_MS / 2);
    ensure!(turn(stand, partition, SERVER).await?, "the holder asks again and does not have it");
    stand.clock.advance(FOR_MS / 2);
    ensure!(writes(stand, partition, RIVAL).await?, "asking again prolongs a turn");
    let none = stand.store.turn(PartitionId(stand.partitions), SERVER, FOR_MS).await;
    ensure!(matches!(none, Err(StoreError::Refused(_))), "the turn of a partition that is not: {none:?}");
    Ok(())
}
