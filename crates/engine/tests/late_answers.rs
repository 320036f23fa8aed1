//! Answers of the store that come late, at a machine fed by hand.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;

use ff_core::commands::{Create, Hold};
use ff_core::limits::Limits;
use ff_core::{Command, CommitId, ExecutionId, Kind, PartitionId, Payload, Reply, Route};
use ff_engine::Failure;
use ff_engine::config::MachineConfig;
use ff_engine::machine::{Input, Machine, Output};
use ff_store::memory::MemoryState;
use ff_store::{Commit, Outcome, Written};

const PARTITION: PartitionId = PartitionId(0);
const AT: i64 = 1_000;

/// A machine with one partition, opened and serving.
fn serving(store: &MemoryState) -> Machine {
    let mut machine = Machine::new(1, Arc::new(Limits::default()), MachineConfig::default(), 7);
    machine.turn(AT);
    answer_loads(&mut machine, store);
    machine
}

fn submit(machine: &mut Machine, store: &MemoryState) -> (ExecutionId, Commit) {
    let id = ExecutionId::from_parts(AT, Route(0), 1);
    let create = Create::new(id, Kind::parse("work").unwrap(), Payload::json("{}"));
    ask(machine, 1, create);
    turn_until_loaded(machine, store);
    let commit = machine.take_outputs().into_iter().find_map(|output| match output {
        Output::Commit(mut commits) => commits.pop(),
        _ => None,
    });
    (id, commit.expect("the submission is committed"))
}

fn ask(machine: &mut Machine, ticket: u64, command: impl Into<Command>) {
    let (command, give_up_at) = (command.into(), i64::MAX);
    machine.accept(AT, Input::Command { ticket, partition: PARTITION, command, give_up_at });
}

fn replies(machine: &mut Machine) -> Vec<(u64, Result<Reply, Failure>)> {
    let outputs = machine.take_outputs().into_iter();
    let replies = outputs.filter_map(|output| match output {
        Output::Reply { ticket, result } => Some((ticket, result)),
        _ => None,
    });
    replies.collect()
}

#[test]
fn an_answer_about_another_version_does_not_make_a_commit_count_as_lost() {
    let mut store = MemoryState::new(1, uuid::Uuid::nil());
    let mut machine = serving(&store);
    let (execution, commit) = submit(&mut machine, &store);
    let (own, number) = (commit.id, commit.expected.number + 1);
    assert_eq!(store.commit(commit, AT), Outcome::Committed { now: AT });
    let outcome = Outcome::Unknown("the connection was lost".to_owned());
    machine.accept(AT, Input::Committed { partition: PARTITION, id: own, outcome });

    let other = CommitId::from_parts(1, Route(0), 99);
    let late = Ok(Written::By(other));
    machine.accept(AT, Input::Written { partition: PARTITION, number: number + 1, result: late });
    let result = store.written(PARTITION, number);
    machine.accept(AT, Input::Written { partition: PARTITION, number, result });
    assert_eq!(replies(&mut machine), [(1, Ok(Reply::Created { execution, existing: false }))]);
}

#[test]
fn a_rejection_is_not_confirmed_by_a_commit_that_was_sent_before_it_was_asked_for() {
    let mut store = MemoryState::new(1, uuid::Uuid::nil());
    let mut machine = serving(&store);
    let (_, commit) = submit(&mut machine, &store);
    let id = commit.id;
    let outcome = store.commit(commit, AT);
    let missing = ExecutionId::from_parts(AT, Route(0), 2);
    ask(&mut machine, 2, Hold { execution: missing, actor: "a".into(), cause: "c".into() });
    for _ in 0..3 {
        machine.turn(AT);
        answer_loads(&mut machine, &store);
    }
    machine.accept(AT, Input::Committed { partition: PARTITION, id, outcome });
    let first: Vec<u64> = replies(&mut machine).into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(first, [1], "others may have committed since; only a later look can tell");
    machine.turn(AT);
    machine.accept(AT, Input::Status(Ok((AT, store.status()))));
    let second: Vec<u64> = replies(&mut machine).into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(second, [2]);
}

fn answer_loads(machine: &mut Machine, store: &MemoryState) {
    for output in machine.take_outputs() {
        if let Output::Load { token, asks } = output {
            let result = store.load(token.partition, &asks, AT);
            machine.accept(AT, Input::Loaded { token, result });
        }
    }
}

/// Turns and answers loads until the machine wants to commit.
fn turn_until_loaded(machine: &mut Machine, store: &MemoryState) {
    for _ in 0..5 {
        machine.turn(AT);
        if machine.stats().in_flight > 0 {
            return;
        }
        answer_loads(machine, store);
    }
    panic!("the machine never commits");
}
