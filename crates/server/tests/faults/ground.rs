//! What stands still: a server on a file, and the engine behind it, by which the parent submits and looks.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ff_api::submit::Submission;
use ff_core::attempt::Attempt;
use ff_core::state::AttemptOutcome;
use ff_core::{ExecutionId, InstanceId, Reply};
use ff_engine::{Engine, EngineConfig};
use ff_server::{Config, Running};
use ff_store_sqlite::{Options, SqliteStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::truth::{Truth, wait_for_all};
use crate::worker::KIND;

pub struct Ground {
    lease_ms: i64,
    runtime: Runtime,
    engine: Engine,
    server: Running,
    _folder: TempDir,
}

impl Ground {
    /// A server on so many partitions, to which work is submitted that is leased for so long.
    pub fn new(partitions: u16, lease_ms: i64) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { partitions: Some(partitions), ..Options::default() };
        let store = SqliteStore::open(folder.path().join("store.db"), options).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (engine, server) = runtime.block_on(async {
            let engine = Engine::start(Arc::new(store), EngineConfig::default()).await.unwrap();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let config = Config { address, ..Config::default() };
            (engine.clone(), ff_server::start(engine, config).await.unwrap())
        });
        Ground { lease_ms, runtime, engine, server, _folder: folder }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub fn submit(&self, count: usize, truth: &mut Truth) {
        for _ in 0..count {
            truth.submitted(self.runtime.block_on(self.create()));
        }
    }

    async fn create(&self) -> ExecutionId {
        // However often its worker is killed or paused, that is not the work's fault.
        let backoff = json!({ "initial_ms": 1, "max_ms": 1 });
        let policy = json!({ "lease_ms": self.lease_ms, "losses_max": 1_000, "backoff": backoff });
        let document = json!({ "kind": KIND, "policy": policy });
        let submission: Submission = serde_json::from_value(document).unwrap();
        let (now, _) = self.engine.store().status().await.unwrap();
        let new_id = |namespace: &ff_core::Namespace, key: Option<&str>| {
            self.engine.new_execution_id(now, namespace, key)
        };
        let create = submission.create(self.engine.limits(), new_id).unwrap();
        match self.engine.execute(create).await.unwrap() {
            Reply::Created { execution, .. } => execution,
            reply => panic!("{reply:?}"),
        }
    }

    pub fn new_instance_id(&self) -> InstanceId {
        let (now, _) = self.runtime.block_on(self.engine.store().status()).unwrap();
        self.engine.new_instance_id(now)
    }

    /// All workers that the store knows.
    pub fn workers(&self) -> Vec<InstanceId> {
        let (_, workers) = self.runtime.block_on(self.engine.lanes_and_workers()).unwrap();
        workers.iter().map(|it| it.instance).collect()
    }

    /// Waits until these have ended, while something else is done.
    pub fn wait_beside(
        &self,
        all: BTreeSet<ExecutionId>,
        patience: Duration,
    ) -> JoinHandle<Result<(), String>> {
        let engine = self.engine.clone();
        self.runtime.spawn(async move { wait_for_all(&engine, &all, patience).await })
    }

    pub fn finish<T>(&self, task: JoinHandle<T>) -> T {
        self.runtime.block_on(task).unwrap()
    }

    pub fn check(&self, truth: &Truth) {
        self.runtime.block_on(truth.check(&self.engine));
    }

    /// What nobody heard of counts as nothing: each was completed by the one attempt that counts. A claim whose connection
    /// ends while it is carried out is given back, and that attempt counts as nothing.
    pub fn assert_one_attempt_each(&self, truth: &Truth) {
        self.runtime.block_on(async {
            for id in truth.all() {
                let attempts = self.engine.attempts(*id).await.unwrap();
                let given_back = |it: &&Attempt| {
                    it.end.as_ref().is_some_and(|end| end.outcome == AttemptOutcome::Released)
                };
                let counted = attempts.iter().filter(|it| !given_back(it)).count();
                assert_eq!(counted, 1, "attempts at {id}: {attempts:?}");
            }
        });
    }
}
