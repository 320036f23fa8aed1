//! Flows of ten thousand nodes on every store that is kept: they end, and no commit is as large as the flow.
//!
//! `FLOWFABRIC_FLOW_SIZE` sets another size.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ff_core::commands::{AddEdges, AddNodes, Cancel, Create, CreateFlow, NewEdge, NewNode, Seal};
use ff_core::flow::{FlowState, On};
use ff_core::{FlowId, PublicState};
use ff_engine::{Engine, EngineConfig};
use ff_scratch::{Database, test_postgres};
use ff_store::Store;
use ff_store_postgres::{Address, PostgresStore};
use ff_store_sqlite::SqliteStore;
use flowfabric::{ExecutionId, Kind, Payload};

use crate::measured::Measured;

const PART: usize = 1_000;
/// How many records one commit may change: those of a part, or of the edges that one step follows.
const ROWS_MAX: usize = 9_000;

fn size() -> usize {
    std::env::var("FLOWFABRIC_FLOW_SIZE").map_or(10_000, |size| size.parse().unwrap())
}

struct Stand {
    engine: Engine,
    store: Arc<Measured>,
    flow: FlowId,
}

impl Stand {
    async fn on(store: Arc<dyn Store>) -> Stand {
        let store = Arc::new(Measured { store, rows_max: AtomicUsize::new(0) });
        let engine = Engine::start(store.clone(), EngineConfig::default()).await.unwrap();
        let flow = engine.new_flow_id(1);
        let create = CreateFlow {
            id: flow,
            fresh: true,
            namespace: "default".parse().unwrap(),
            kind: "large".parse().unwrap(),
            tags: Default::default(),
            nodes: Vec::new(),
            edges: Vec::new(),
            sealed: false,
            actor: "ada".into(),
        };
        engine.execute(create).await.unwrap();
        Stand { engine, store, flow }
    }

    async fn nodes(&self, count: usize) -> Vec<ExecutionId> {
        let ids: Vec<_> = (0..count).map(|_| self.engine.new_member_id(1, self.flow)).collect();
        let kind = Kind::parse("step").unwrap();
        for part in ids.chunks(PART) {
            let node = |id: &ExecutionId| NewNode {
                open: true,
                ..NewNode::new(Create { fresh: true, ..Create::new(*id, kind.clone(), Payload::json("1")) })
            };
            let (nodes, edges) = (part.iter().map(node).collect(), Vec::new());
            let (flow, expected_revision, actor) = (self.flow, None, "ada".into());
            self.engine.execute(AddNodes { flow, expected_revision, nodes, edges, actor }).await.unwrap();
        }
        ids
    }

    async fn edges(&self, edges: Vec<NewEdge>) {
        for part in edges.chunks(PART) {
            let (flow, expected_revision, actor) = (self.flow, None, "ada".into());
            let edges = part.to_vec();
            self.engine.execute(AddEdges { flow, expected_revision, edges, actor }).await.unwrap();
        }
    }

    async fn seal(&self) {
        let (flow, node, expected_revision) = (self.flow, None, None);
        let (actor, cause) = ("ada".into(), "it is whole".into());
        self.engine.execute(Seal { flow, node, expected_revision, actor, cause }).await.unwrap();
    }

    async fn cancel(&self, execution: ExecutionId) {
        let (actor, cause) = ("ada".into(), "it starts here".into());
        self.engine.execute(Cancel { execution, actor, cause, grace_ms: None }).await.unwrap();
    }

    /// The flow ends with so many members skipped, and no commit was as large as it.
    async fn ends(self, skipped: usize) {
        let ended = self.engine.wait_flow(self.flow).await.unwrap();
        assert_eq!(ended.state(), FlowState::Failed);
        assert_eq!(ended.live.summary.get(PublicState::Skipped), skipped as u64);
        let rows_max = self.store.rows_max.load(Ordering::Relaxed);
        assert!(rows_max < ROWS_MAX, "one commit changed {rows_max} records");
        self.engine.shutdown(Duration::from_secs(5)).await;
        self.store.store.close().await;
    }
}

/// A chain whose first is cancelled: all others are skipped, one after the other.
async fn chain(store: Arc<dyn Store>) {
    let stand = Stand::on(store).await;
    let ids = stand.nodes(size() + 1).await;
    stand.edges(ids.windows(2).map(|pair| NewEdge::new(pair[0], pair[1])).collect()).await;
    stand.seal().await;
    stand.cancel(ids[0]).await;
    stand.ends(size()).await;
}

/// One before many before one: the first is cancelled, so the many are skipped, and the last hears of all of them.
async fn fan(store: Arc<dyn Store>) {
    let stand = Stand::on(store).await;
    let ids = stand.nodes(size() + 2).await;
    let (first, last, many) = (ids[0], ids[1], &ids[2..]);
    stand.edges(many.iter().map(|id| NewEdge::new(first, *id)).collect()).await;
    let into = many.iter().map(|id| NewEdge { on: On::Failure, ..NewEdge::new(*id, last) });
    stand.edges(into.collect()).await;
    stand.seal().await;
    stand.cancel(first).await;
    stand.ends(size() + 1).await;
}

fn sqlite(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.path().join("store.db"), Default::default()).unwrap())
}

async fn postgres(database: &Database) -> Arc<dyn Store> {
    let address = Address::parse(&database.url()).unwrap();
    Arc::new(PostgresStore::open(address, Default::default()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_skips_of_any_length_ends_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    chain(sqlite(&folder)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_and_in_of_any_size_ends_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    fan(sqlite(&folder)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_skips_of_any_length_ends_on_postgresql() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    chain(postgres(&database).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_and_in_of_any_size_ends_on_postgresql() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    fan(postgres(&database).await).await;
}
