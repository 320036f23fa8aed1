//! When a batch follows another that is still on its way to the store, at a machine fed by hand.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;

use ff_core::commands::Create;
use ff_core::limits::Limits;
use ff_core::{ExecutionId, Kind, Ms, PartitionId, Payload, Route};
use ff_engine::config::MachineConfig;
use ff_engine::machine::{Input, Machine, Output};
use ff_store::Commit;
use ff_store::memory::MemoryState;

const PARTITION: PartitionId = PartitionId(0);
const AT: Ms = 1_000;

struct Stand {
    store: MemoryState,
    machine: Machine,
    last: u64,
}

impl Stand {
    fn new(servers: &[&str]) -> Stand {
        let mut machine = Machine::new(1, Arc::new(Limits::default()), MachineConfig::default(), 7);
        let alive: Vec<String> = servers.iter().map(|&name| name.to_owned()).collect();
        machine.set_servers(&alive[0], &alive);
        Stand { store: MemoryState::new(1, uuid::Uuid::nil()), machine, last: 0 }
    }

    /// Takes in so many submissions together; says what is sent to the store then.
    fn submit(&mut self, count: usize) -> Vec<Commit> {
        for _ in 0..count {
            self.last += 1;
            let id = ExecutionId::from_parts(AT, Route(0), self.last);
            let create = Create::new(id, Kind::parse("k").unwrap(), Payload::json("1"));
            let command = Create { fresh: true, ..create }.into();
            let (ticket, partition, give_up_at) = (self.last, PARTITION, Ms::MAX);
            self.machine.accept(AT, Input::Command { ticket, partition, command, give_up_at });
        }
        self.settle()
    }

    fn settle(&mut self) -> Vec<Commit> {
        let mut sent = Vec::new();
        for _ in 0..5 {
            self.machine.turn(AT);
            for output in self.machine.take_outputs() {
                match output {
                    Output::Load { token, asks } => {
                        let result = self.store.load(PARTITION, &asks, AT);
                        self.machine.accept(AT, Input::Loaded { token, result });
                    }
                    Output::Commit(commits) => sent.extend(commits),
                    _ => {}
                }
            }
        }
        sent
    }

    fn commit(&mut self, commit: Commit) {
        let Commit { partition, id, .. } = commit;
        let outcome = self.store.commit(commit, AT);
        self.machine.accept(AT, Input::Committed { partition, id, outcome });
    }
}

fn submissions(commits: &[Commit]) -> Vec<usize> {
    commits.iter().map(|commit| commit.changes.executions.len()).collect()
}

#[test]
fn a_server_that_is_alone_sends_what_it_has_while_a_batch_is_on_its_way() {
    let mut stand = Stand::new(&["one"]);
    assert_eq!(submissions(&stand.submit(3)), [3]);
    assert_eq!(submissions(&stand.submit(1)), [1]);
}

#[test]
fn where_servers_share_a_store_a_batch_follows_another_only_if_it_is_no_smaller() {
    let mut stand = Stand::new(&["one", "two"]);
    let first = stand.submit(3);
    assert_eq!(submissions(&first), [3]);
    assert_eq!(submissions(&stand.submit(2)), [0; 0]);
    let second = stand.submit(1);
    assert_eq!(submissions(&second), [3]);
    // A smaller one leaves when nothing is on its way any more.
    assert_eq!(submissions(&stand.submit(2)), [0; 0]);
    first.into_iter().chain(second).for_each(|commit| stand.commit(commit));
    assert_eq!(submissions(&stand.settle()), [2]);
}
