//! A workspace that writes to a store: changes as coherent as the engine's, without the engine.

use std::sync::Arc;

use ff_core::change::Changes;
use ff_core::class::Capabilities;
use ff_core::commands::{Claim, Complete, Create, Poll, RegisterWorker};
use ff_core::execution::Fence;
use ff_core::limits::Limits;
use ff_core::workspace::{Answer, Opening};
use ff_core::{
    Command, CommitId, ExecutionId, InstanceId, Kind, LaneName, Ms, PartitionId, Payload, Reply, Route,
    ServerId, WorkerName, Workspace, decide,
};
use ff_store::{Commit, Outcome, Store, Version};

pub const START: Ms = 1_800_000_000_000;

#[derive(Debug)]
pub struct Desk {
    pub workspace: Workspace,
    pub version: Version,
    pub now: Ms,
    partition: PartitionId,
    ids: u64,
}

impl Desk {
    pub fn new(partition: u16, partitions: u16) -> Desk {
        let partition = PartitionId(partition);
        let mut workspace = Workspace::new(partition, partitions, Arc::new(Limits::default()));
        workspace.learn(Answer::Opening(Box::<Opening>::default()));
        Desk { workspace, version: Version::NONE, now: START, partition, ids: 0 }
    }

    fn next(&mut self) -> u64 {
        self.ids += 1;
        // Spread over the random bits, so that ids of two desks differ.
        self.ids << 20 | u64::from(self.partition.0)
    }

    pub fn execution_id(&mut self) -> ExecutionId {
        let random = self.next();
        ExecutionId::from_parts(self.now, Route(self.partition.0), random)
    }

    pub fn run(&mut self, command: impl Into<Command>) -> Reply {
        let command = command.into();
        decide(&mut self.workspace, self.now, &command).unwrap_or_else(|stop| panic!("{command:?}: {stop:?}"))
    }

    pub fn create(&mut self) -> ExecutionId {
        let id = self.execution_id();
        self.workspace.learn(Answer::Execution(id, None));
        let kind = Kind::parse("charge").unwrap();
        self.run(Create::new(id, kind, Payload::json(format!("{{\"id\":\"{id}\"}}"))));
        id
    }

    pub fn worker(&mut self) -> InstanceId {
        let random = self.next();
        let instance = InstanceId::from_parts(self.now, Route(self.partition.0), random);
        self.workspace.learn(Answer::Worker(instance, None));
        self.run(RegisterWorker {
            instance,
            name: WorkerName::parse("tester").unwrap(),
            lanes: vec![LaneName::default()],
            capabilities: Capabilities::default(),
            build: None,
            server: None,
            owner: None,
            ttl_ms: 60_000,
        });
        instance
    }

    pub fn claim(&mut self, instance: InstanceId, max: usize) -> Vec<Fence> {
        let poll = Poll {
            worker: WorkerName::parse("tester").unwrap(),
            instance,
            lanes: vec![LaneName::default()],
            kinds: vec![],
            namespaces: vec![],
            capabilities: Capabilities::default(),
        };
        match self.run(Claim { poll: Arc::new(poll), max }) {
            Reply::Claimed(claimed) => claimed.iter().map(|it| it.fence()).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn complete(&mut self, fence: Fence) {
        self.run(Complete { fence, result: Some(Payload::json("\"done\"")) });
    }

    /// What was decided since the last time, as the next commit. The desk goes on as if it succeeded.
    pub fn commit(&mut self) -> Commit {
        let changes = self.workspace.take_batch(self.now);
        self.commit_of(changes)
    }

    pub fn commit_of(&mut self, changes: Changes) -> Commit {
        let random = self.next();
        let id = CommitId::from_parts(self.now, Route(self.partition.0), random);
        let expected = self.version;
        self.version = Version { number: expected.number + 1, id };
        let by = ServerId::from_parts(0, Route(0), 1);
        Commit { partition: self.partition, expected, id, by, changes }
    }

    /// Commits and insists on success.
    pub async fn flush(&mut self, store: &dyn Store) {
        let commit = self.commit();
        match store.commit(vec![commit]).await.as_slice() {
            [Outcome::Committed { .. }] => {}
            other => panic!("{other:?}"),
        }
    }
}
