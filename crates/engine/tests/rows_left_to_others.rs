//! How long a server that is not the first leaves posted rows to the one that is, at a machine fed by hand.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;

use ff_core::change::{Changes, Header};
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::limits::Limits;
use ff_core::{CommitId, Ms, PartitionId, Payload, Route, ServerId};
use ff_engine::config::MachineConfig;
use ff_engine::machine::affinity::ranks;
use ff_engine::machine::{Input, Machine, Output};
use ff_store::memory::MemoryState;
use ff_store::{Commit, Outcome};

const PARTITION: PartitionId = PartitionId(0);
/// How often the store is looked at.
const EVERY_MS: Ms = 10;

#[derive(Clone, Copy, PartialEq)]
enum Others {
    Silent,
    /// They commit other things all the time and never take the row.
    AtWork,
}

/// Whoever comes before "me".
fn the_first() -> String {
    let names = (0..).map(|n| format!("server {n}"));
    let comes_first = |name: &String| ranks("me", std::slice::from_ref(name), 1) == [1];
    names.take(100).find(comes_first).unwrap()
}

fn commit_something(store: &mut MemoryState, at: Ms) {
    let expected = store.partition(PARTITION).unwrap().version();
    let id = CommitId::from_parts(at, Route(0), 1 + expected.number);
    let changes = Changes { header: Header { now: at, ..Header::default() }, ..Changes::default() };
    let by = ServerId::from_parts(0, Route(0), 99);
    let commit = Commit { partition: PARTITION, expected, id, by, changes };
    assert!(matches!(store.commit(commit, at), Outcome::Committed { .. }));
}

/// How long after it was first seen a row is read.
fn read_after(alive: &[String], others: Others) -> Ms {
    let mut store = MemoryState::new(1, uuid::Uuid::nil());
    let mut machine = Machine::new(1, Arc::new(Limits::default()), MachineConfig::default(), 7);
    machine.set_servers("me", alive);
    store.post(Posted {
        number: 1,
        id: None,
        posted_at: 0,
        kind: "work".into(),
        input: Payload::json("1"),
        namespace: None,
        lane: None,
        key: None,
        options: None,
    });
    for at in (0..5_000).step_by(EVERY_MS as usize) {
        if others == Others::AtWork {
            commit_something(&mut store, at);
        }
        machine.accept(at, Input::Status(Ok((at, store.status()))));
        for _ in 0..3 {
            machine.turn(at);
            for output in machine.take_outputs() {
                let Output::Load { token, asks } = output else { continue };
                if asks.iter().any(|ask| matches!(ask, Ask::Inbox { .. })) {
                    return at;
                }
                let result = store.load(PARTITION, &asks, at);
                machine.accept(at, Input::Loaded { token, result });
            }
        }
    }
    panic!("nobody takes the row");
}

#[test]
fn rows_are_left_to_the_first_server_for_a_moment_and_never_for_ever() {
    let both = [the_first(), "me".to_owned()];
    assert_eq!(read_after(&both[1..], Others::Silent), 0);
    assert_eq!(read_after(&both[1..], Others::AtWork), 0);
    assert_eq!(read_after(&both, Others::Silent), 50);
    // Somebody commits there: probably it takes the rows, but that is not waited for without an end.
    assert_eq!(read_after(&both, Others::AtWork), 1_000);
}
