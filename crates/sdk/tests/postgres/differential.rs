//! The engine itself, with its driver, batches and cache, on every store at once: one list of commands, on one clock that
//! the test moves, is answered alike and ends in the same state. Flows that join, grow and are cancelled are part of it,
//! with what their members are given.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ff_core::class::Capabilities;
use ff_core::commands::{
    AddNodes, Cancel, CancelFlow, Complete, Create, CreateFlow, Expand, Fail, Hold, NewChild, NewEdge,
    NewNode, Poll, RegisterWorker, Release, Remove, Replay, Seal, SetPriority, Unhold, When,
};
use ff_core::execution::Fence;
use ff_core::flow::{CancelPolicy, Join, On, OnSatisfied};
use ff_core::tags::Tags;
use ff_core::{Command, FlowId, InstanceId, Namespace, Route};
use ff_engine::{Engine, EngineConfig, Failure};
use ff_scratch::{Database, test_postgres};
use ff_store::conformance::Dump;
use ff_store::{Clock, ManualClock, MemoryStore, Store};
use ff_store_postgres::{Address, PostgresStore};
use ff_store_sqlite::SqliteStore;
use flowfabric::{Backoff, ExecutionId, Jitter, Kind, LaneName, Ms, Payload, Policy, TaskError, WorkerName};

const START: Ms = 1_800_000_000_000;
const STEPS: usize = 300;
/// The worker lives longer than the program.
const TTL_MS: Ms = 3_600_000;

struct Side {
    name: &'static str,
    store: Arc<dyn Store>,
    engine: Engine,
}

impl Side {
    /// Until everything that is due has been done.
    async fn settle(&self) {
        loop {
            self.engine.nudge().await;
            let stats = self.engine.stats().await.unwrap();
            if stats.queued == 0 && stats.in_flight == 0 {
                return;
            }
        }
    }
}

/// A small generator of numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let recent = &list[list.len().saturating_sub(12)..];
        (!recent.is_empty()).then(|| recent[self.below(recent.len() as u64) as usize])
    }
}

struct Race {
    clock: Arc<ManualClock>,
    sides: Vec<Side>,
    dice: Dice,
    ids: Vec<ExecutionId>,
    fences: Vec<Fence>,
    /// Flows with their members.
    flows: Vec<(FlowId, Vec<ExecutionId>)>,
}

impl Race {
    async fn on(stores: Vec<(&'static str, Arc<dyn Store>)>, clock: Arc<ManualClock>, seed: u64) -> Race {
        let mut sides = Vec::new();
        for (name, store) in stores {
            let config = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
            let engine = Engine::start(store.clone(), config).await.unwrap();
            sides.push(Side { name, store, engine });
        }
        Race { clock, sides, dice: Dice(seed), ids: Vec::new(), fences: Vec::new(), flows: Vec::new() }
    }

    async fn command(&self, command: impl Into<Command>) {
        let command = command.into();
        let mut said = Vec::new();
        for side in &self.sides {
            said.push((side.name, side.engine.execute(command.clone()).await));
        }
        let (_, want) = &said[0];
        for (name, got) in &said {
            assert_eq!(got, want, "{name}: {command:?}");
        }
        assert!(matches!(want, Ok(_) | Err(Failure::Rejected(_))), "{want:?}");
    }

    async fn claim(&mut self, poll: &Arc<Poll>) {
        let max = 1 + self.dice.below(3) as usize;
        let mut said = Vec::new();
        for side in &self.sides {
            let tasks = side.engine.poll(poll.clone(), max, Duration::ZERO).await.unwrap();
            said.push((side.name, tasks));
        }
        let (_, want) = &said[0];
        for (name, got) in &said {
            assert_eq!(got, want, "a claim on {name}");
        }
        self.fences.extend(want.iter().map(|task| task.execution.fence()));
    }

    fn create(&mut self) -> Create {
        let id = ExecutionId::from_parts(self.clock.now(), Route(0), self.dice.roll());
        self.ids.push(id);
        let input = Payload::json(self.ids.len().to_string());
        let mut create = Create::new(id, Kind::parse("work").unwrap(), input);
        create.idempotency_key = (self.dice.below(4) == 0).then(|| format!("k{}", self.dice.below(5)).into());
        create.priority = self.dice.below(5) as i8 - 2;
        create.start = (self.dice.below(4) == 0).then(|| When::In(self.dice.below(4_000) as Ms));
        create.deadline = (self.dice.below(6) == 0).then(|| When::In(5_000 + self.dice.below(9_000) as Ms));
        // How long a lost lease is waited for must not be drawn by each engine for itself.
        let backoff = Backoff { initial_ms: 200, jitter: Jitter::None, ..Backoff::default() };
        create.policy = Policy { lease_ms: 2_000, max_attempts: 3, backoff, ..Policy::default() };
        create
    }

    fn flow_id(&mut self) -> FlowId {
        FlowId::from_parts(self.clock.now(), Route(0), self.dice.roll())
    }

    /// A node whose name another node may have.
    fn node(&mut self) -> NewNode {
        let create = Create { idempotency_key: None, deadline: None, ..self.create() };
        // Most of what is asked by id is about executions of their own, because there is more that they allow.
        if self.dice.below(3) > 0 {
            self.ids.pop();
        }
        let name = (self.dice.below(2) == 0).then(|| format!("n{}", self.dice.below(40)).parse().unwrap());
        NewNode { name, ..NewNode::new(create) }
    }

    /// A few nodes, each with edges from nodes that are there or come before it.
    fn parts(&mut self, members: &[ExecutionId]) -> (Vec<NewNode>, Vec<NewEdge>) {
        let (mut nodes, mut edges) = (Vec::<NewNode>::new(), Vec::new());
        let mut known = members.to_vec();
        for _ in 0..2 + self.dice.below(4) {
            let mut node = self.node();
            let id = node.create.id;
            let mut upstreams: Vec<_> =
                (0..self.dice.below(4)).filter_map(|_| self.dice.pick(&known)).collect();
            upstreams.sort();
            upstreams.dedup();
            for upstream in &upstreams {
                let on = [On::Success, On::Success, On::Failure, On::Always][self.dice.below(4) as usize];
                let field = (self.dice.below(2) == 0).then(|| "given".parse().unwrap());
                edges.push(NewEdge { on, field, ..NewEdge::new(*upstream, id) });
            }
            let on_satisfied =
                [OnSatisfied::CancelRemaining, OnSatisfied::LetRun][self.dice.below(2) as usize];
            node.join = match (self.dice.below(3), upstreams.len() as u32) {
                (0, _) | (_, 0) => Join::AllOf,
                (1, _) => Join::AnyOf { on_satisfied },
                (_, total) => Join::Quorum { k: 1 + self.dice.below(u64::from(total)) as u32, on_satisfied },
            };
            if self.dice.below(6) == 0 {
                let (id, kind) = (self.flow_id(), Kind::parse("inner").unwrap());
                let nodes = vec![self.node(), self.node()];
                let edges = vec![NewEdge::new(nodes[0].create.id, nodes[1].create.id)];
                let child = NewChild { id, kind, tags: Tags::default(), nodes, edges, sealed: true };
                node.child = Some(Box::new(child));
            }
            known.push(id);
            nodes.push(node);
        }
        (nodes, edges)
    }

    async fn step_of_flows(&mut self) {
        let (actor, cause): (Box<str>, Box<str>) = ("ada".into(), "because".into());
        let recent = self.flows.len().saturating_sub(3);
        let at = recent + self.dice.below((self.flows.len() - recent).max(1) as u64) as usize;
        let known = self.flows.get(at).cloned();
        match (self.dice.below(8), known) {
            (0..=2, _) | (_, None) => {
                let id = self.flow_id();
                let (nodes, edges) = self.parts(&[]);
                self.flows.push((id, nodes.iter().map(|node| node.create.id).collect()));
                let (namespace, kind) = (Namespace::default(), Kind::parse("nightly").unwrap());
                let sealed = self.dice.below(2) == 0;
                let tags = Tags::default();
                self.command(CreateFlow {
                    id,
                    fresh: false,
                    namespace,
                    kind,
                    tags,
                    nodes,
                    edges,
                    sealed,
                    actor,
                })
                .await;
            }
            (3 | 4, Some((flow, members))) => {
                let (nodes, edges) = self.parts(&members);
                self.flows[at].1.extend(nodes.iter().map(|node| node.create.id));
                self.command(AddNodes { flow, expected_revision: None, nodes, edges, actor }).await;
            }
            (5, Some((flow, _))) => {
                self.command(Seal { flow, node: None, expected_revision: None, actor, cause }).await;
            }
            (6, Some((flow, _))) => {
                let policy = CancelPolicy::ALL[self.dice.below(3) as usize];
                self.command(CancelFlow { flow, policy, members_after: 0, actor, cause }).await;
            }
            (_, Some(_)) => {
                let Some(fence) = self.dice.pick(&self.fences) else { return };
                let (nodes, edges) = self.parts(&[fence.execution]);
                let result = Some(Payload::json("2"));
                self.command(Expand { fence, result, nodes, edges }).await;
            }
        }
    }

    async fn step(&mut self, poll: &Arc<Poll>) {
        if self.dice.below(6) == 0 {
            return self.step_of_flows().await;
        }
        let (actor, cause): (Box<str>, Box<str>) = ("ada".into(), "because".into());
        let (execution, fence) = (self.dice.pick(&self.ids), self.dice.pick(&self.fences));
        match (self.dice.below(15), execution, fence) {
            (0..=3, ..) => {
                let create = self.create();
                self.command(create).await;
            }
            (4 | 5, ..) => self.claim(poll).await,
            (6, _, Some(fence)) => {
                self.command(Complete { fence, result: Some(Payload::json("1")) }).await;
            }
            (7, _, Some(fence)) => {
                let error = TaskError::new("broken", "it broke");
                self.command(Fail { fence, error, retry_after_ms: None, seed: 7 }).await;
            }
            (8, _, Some(fence)) => self.command(Release::new(fence)).await,
            (9, Some(execution), _) => {
                let grace_ms = (self.dice.below(2) == 0).then_some(700);
                self.command(Cancel { execution, actor, cause, grace_ms }).await;
            }
            (10, Some(execution), _) => self.command(Hold { execution, actor, cause }).await,
            (11, Some(execution), _) => self.command(Unhold { execution, actor, cause }).await,
            (12, Some(execution), _) => match self.dice.below(4) {
                0 => self.command(Replay { execution, actor, cause, ended_by: None }).await,
                1 | 2 => {
                    // Of those that are older more have ended.
                    let any = self.dice.below(self.ids.len() as u64) as usize;
                    self.command(Remove { execution: self.ids[any], actor, cause }).await;
                }
                _ => self.command(SetPriority { execution, priority: 9, actor, cause }).await,
            },
            _ => {
                self.clock.advance(self.dice.below(1_500) as Ms);
                for side in &self.sides {
                    side.settle().await;
                }
            }
        }
    }

    async fn compare(&self) -> Dump {
        let mut dumps = Vec::new();
        for side in &self.sides {
            side.settle().await;
            dumps.push(Dump::of(&*side.store).await.unwrap());
        }
        for (side, dump) in self.sides.iter().zip(&dumps) {
            dump.compare(&dumps[0]).unwrap_or_else(|problem| panic!("{}: {problem}", side.name));
        }
        dumps.remove(0)
    }
}

/// Runs the program of a seed and tells which facts came of it. The memory store comes first; it is right.
async fn run(seed: u64) -> BTreeSet<&'static str> {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(START));
    let sqlite = ff_store_sqlite::Options { clock: clock.clone(), ..Default::default() };
    let sqlite = SqliteStore::open(folder.path().join("store.db"), sqlite).unwrap();
    let (partitions, own) = (Some(1), Some(clock.clone() as Arc<dyn Clock>));
    let postgres = ff_store_postgres::Options { partitions, clock: own, ..Default::default() };
    let postgres = PostgresStore::open(Address::parse(&database.url()).unwrap(), postgres).await.unwrap();
    let stores: Vec<(&'static str, Arc<dyn Store>)> = vec![
        ("memory", Arc::new(MemoryStore::with_clock(1, clock.clone()))),
        ("SQLite", Arc::new(sqlite)),
        ("PostgreSQL", Arc::new(postgres)),
    ];
    let mut race = Race::on(stores, clock, seed).await;
    let instance = InstanceId::from_parts(START, Route(0), 1);
    let (worker, lanes) = (WorkerName::parse("w").unwrap(), vec![LaneName::default()]);
    let register = RegisterWorker {
        instance,
        name: worker.clone(),
        lanes: lanes.clone(),
        capabilities: Capabilities::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: TTL_MS,
    };
    race.command(register).await;
    let capabilities = Capabilities::default();
    let (kinds, namespaces) = (Vec::new(), Vec::new());
    let poll = Arc::new(Poll { worker, instance, lanes, kinds, namespaces, capabilities });
    for step in 0..STEPS {
        race.step(&poll).await;
        if step % 50 == 49 {
            race.compare().await;
        }
    }
    let dump = race.compare().await;
    for side in race.sides {
        side.engine.shutdown(Duration::from_secs(5)).await;
    }
    dump.partitions[0].events.iter().map(|event| event.fact.word()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_does_the_same_on_every_store() {
    let mut words = BTreeSet::new();
    for seed in 1..=4 {
        words.extend(run(seed).await);
    }
    let ordinary =
        ["completed", "retried", "cancelled", "held", "lease_expired", "woken", "expired", "removed"];
    let of_flows =
        ["flow_created", "flow_grown", "flow_sealed", "flow_cancel_requested", "flow_ended", "skipped"];
    for word in ordinary.iter().chain(&of_flows) {
        assert!(words.contains(word), "{word} never happened: {words:?}");
    }
}
