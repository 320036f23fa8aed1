//! Answers of the store that come late, at a machine fed by hand.

use std::sync::Arc;

use ff_core::commands::Create;
use ff_core::limits::Limits;
use ff_core::{CommitId, ExecutionId, Kind, PartitionId, Payload, Reply, Route};
use ff_engine::config::MachineConfig;
use ff_engine::machine::{Input, Machine, Output};
use ff_store::memory::MemoryState;
use ff_store::{Outcome, Written};

const PARTITION: PartitionId = PartitionId(0);
const AT: i64 = 1_000;

/// A machine with one partition, opened and serving.
fn serving(store: &MemoryState) -> Machine {
    let mut machine = Machine::new(1, Arc::new(Limits::default()), MachineConfig::default(), 7);
    machine.turn(AT);
    for output in machine.take_outputs() {
        if let Output::Load { token, asks } = output {
            let result = store.load(token.partition, &asks, AT);
            machine.accept(AT, Input::Loaded { token, result });
        }
    }
    machine
}

#[test]
fn an_answer_about_another_version_does_not_make_a_commit_count_as_lost() {
    let mut store = MemoryState::new(1, uuid::Uuid::nil());
    let mut machine = serving(&store);
    let id = ExecutionId::from_parts(AT, Route(0), 1);
    let create = Create::new(id, Kind::parse("work").unwrap(), Payload::json("{}"));
    let (ticket, give_up_at) = (1, i64::MAX);
    machine.accept(AT, Input::Command { ticket, partition: PARTITION, command: create.into(), give_up_at });
    turn_until_loaded(&mut machine, &store);
    let commit = machine.take_outputs().into_iter().find_map(|output| match output {
        Output::Commit(mut commits) => commits.pop(),
        _ => None,
    });
    let commit = commit.expect("the submission is committed");
    let (own, number) = (commit.id, commit.expected.number + 1);
    assert_eq!(store.commit(commit, AT), Outcome::Committed { now: AT });
    let outcome = Outcome::Unknown("the connection was lost".to_owned());
    machine.accept(AT, Input::Committed { partition: PARTITION, id: own, outcome });

    let other = CommitId::from_parts(1, Route(0), 99);
    let late = Ok(Written::By(other));
    machine.accept(AT, Input::Written { partition: PARTITION, number: number + 1, result: late });
    let result = store.written(PARTITION, number);
    machine.accept(AT, Input::Written { partition: PARTITION, number, result });
    let reply = machine.take_outputs().into_iter().find_map(|output| match output {
        Output::Reply { result, .. } => Some(result),
        _ => None,
    });
    assert_eq!(reply, Some(Ok(Reply::Created { execution: id, existing: false })));
}

/// Turns and answers loads until the machine wants to commit.
fn turn_until_loaded(machine: &mut Machine, store: &MemoryState) {
    for _ in 0..5 {
        machine.turn(AT);
        if machine.stats().in_flight > 0 {
            return;
        }
        for output in machine.take_outputs() {
            if let Output::Load { token, asks } = output {
                let result = store.load(token.partition, &asks, AT);
                machine.accept(AT, Input::Loaded { token, result });
            }
        }
    }
    panic!("the machine never commits");
}
