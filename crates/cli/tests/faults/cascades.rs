//! Processes killed in the middle of cascades. The graphs' text says how each member must end; whoever is killed and
//! however often, each member ends so, once, and the flows end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_core::class::Capabilities;
use ff_core::commands::{
    AddEdges, AddNodes, Cancel, CancelFlow, Complete, Create, CreateFlow, Fail, NewChild, NewEdge, NewNode,
    Poll, RegisterWorker, Seal, When,
};
use ff_core::flow::{CancelPolicy, FlowState, Join, On, OnSatisfied};
use ff_core::{ExecutionId, FlowId, Ms, PublicState};
use ff_engine::subscription::Item;
use ff_engine::{Engine, doctor};
use ff_scratch::{Database, test_postgres};
use ff_sim::rng::Rng;
use flowfabric::{
    Backoff, EventFilter, Fabric, Kind, LaneName, Limits, Options, Payload, Policy, Start, TaskError,
    WorkerName,
};

use crate::attack::seed;
use crate::parts;

/// How many nodes each cascade goes over.
const WIDTH: usize = 400;
/// How many of them one commit follows, so that each cascade takes a hundred commits and more.
const EDGES_PER_COMMIT: usize = 4;
/// How often somebody is killed before the rest is left in peace.
const KILLS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(120);

const GOOD: &str = "good";
const BAD: &str = "bad";
const PART: usize = 1_000;

async fn connect(url: &str) -> Option<Fabric> {
    let limits = Limits { cascade_edges_max: EDGES_PER_COMMIT, ..Limits::default() };
    flowfabric::connect_with(url, Options::new().limits(limits)).await.ok()
}

// ---- the graph -------------------------------------------------------------------------------------------

struct Graph {
    flow: FlowId,
    nodes: Vec<NewNode>,
    edges: Vec<NewEdge>,
    /// A node that is a flow of its own.
    child: Option<NewNode>,
    /// How each member must end.
    ends: BTreeMap<ExecutionId, PublicState>,
}

impl Graph {
    /// A root that fails and a chain after it, which is skipped. A root that completes and a fan of nodes for the
    /// case that it fails, which are skipped, and one that waits for all of them whatever becomes of them. A join
    /// that one of many satisfies, so that the others are cancelled, and what comes after it.
    fn draw(engine: &Engine, now: Ms) -> Graph {
        let flow = engine.new_flow_id(now);
        let mut graph = Graph::empty(flow);
        let mut last = graph.add(engine, now, BAD, PublicState::Failed);
        for _ in 0..WIDTH {
            let next = graph.add(engine, now, GOOD, PublicState::Skipped);
            graph.edges.push(NewEdge::new(last, next));
            last = next;
        }
        let root = graph.add(engine, now, GOOD, PublicState::Completed);
        let fan: Vec<_> = (0..WIDTH).map(|_| graph.add(engine, now, GOOD, PublicState::Skipped)).collect();
        let gather = graph.add(engine, now, GOOD, PublicState::Completed);
        for id in fan {
            graph.edges.push(NewEdge { on: On::Failure, ..NewEdge::new(root, id) });
            graph.edges.push(NewEdge { on: On::Always, ..NewEdge::new(id, gather) });
        }
        let winner = graph.add(engine, now, GOOD, PublicState::Completed);
        let losers: Vec<_> =
            (0..WIDTH).map(|_| graph.add(engine, now, GOOD, PublicState::Cancelled)).collect();
        let from = graph.nodes.len() - WIDTH;
        for node in &mut graph.nodes[from..] {
            node.create.start = Some(When::In(3_600_000));
        }
        let join = graph.add(engine, now, GOOD, PublicState::Completed);
        let on_satisfied = OnSatisfied::CancelRemaining;
        graph.nodes.last_mut().unwrap().join = Join::AnyOf { on_satisfied };
        for id in losers.into_iter().chain([winner]) {
            graph.edges.push(NewEdge::new(id, join));
        }
        graph
    }

    fn empty(flow: FlowId) -> Graph {
        Graph { flow, nodes: Vec::new(), edges: Vec::new(), child: None, ends: BTreeMap::new() }
    }

    /// Members that wait for their time, and are cancelled with their flow.
    fn waiting(engine: &Engine, now: Ms, flow: FlowId) -> Graph {
        let mut graph = Graph::empty(flow);
        for _ in 0..WIDTH {
            graph.add(engine, now, GOOD, PublicState::Cancelled);
        }
        for node in &mut graph.nodes {
            (node.open, node.create.start) = (false, Some(When::In(3_600_000)));
        }
        graph
    }

    /// A flow with one node that is a flow, and that flow.
    fn nested(engine: &Engine, now: Ms) -> [Graph; 2] {
        let mut outer = Graph::empty(engine.new_flow_id(now));
        let inner = Graph::waiting(engine, now, engine.new_child_id(now, outer.flow));
        outer.add(engine, now, GOOD, PublicState::Cancelled);
        let mut node = outer.nodes.pop().unwrap();
        let (kind, tags) = ("inner".parse().unwrap(), Default::default());
        let (id, nodes, edges) = (inner.flow, inner.nodes.clone(), Vec::new());
        node.child = Some(Box::new(NewChild { id, kind, tags, nodes, edges, sealed: true }));
        outer.child = Some(node);
        [outer, inner]
    }

    fn add(&mut self, engine: &Engine, now: Ms, kind: &str, end: PublicState) -> ExecutionId {
        let id = engine.new_member_id(now, self.flow);
        let backoff = Backoff { initial_ms: 1, max_ms: 1, ..Backoff::default() };
        let policy =
            Policy { max_attempts: 1, lease_ms: 1_000, losses_max: 1_000, backoff, ..Policy::default() };
        let create = Create::new(id, Kind::parse(kind).unwrap(), Payload::json("1"));
        // It gets its edges in parts.
        self.nodes.push(NewNode { open: true, ..NewNode::new(Create { policy, ..create }) });
        self.ends.insert(id, end);
        id
    }

    async fn store(&self, engine: &Engine) {
        let actor: Box<str> = "parent".into();
        let create = CreateFlow {
            id: self.flow,
            fresh: false,
            namespace: "default".parse().unwrap(),
            kind: "cascades".parse().unwrap(),
            tags: Default::default(),
            nodes: Vec::new(),
            edges: Vec::new(),
            sealed: false,
            actor: actor.clone(),
        };
        engine.execute(create).await.unwrap();
        let (flow, expected_revision) = (self.flow, None);
        for nodes in self.nodes.chunks(PART) {
            let (nodes, edges, actor) = (nodes.to_vec(), Vec::new(), actor.clone());
            engine.execute(AddNodes { flow, expected_revision, nodes, edges, actor }).await.unwrap();
        }
        if let Some(node) = &self.child {
            let (nodes, edges, actor) = (vec![node.clone()], Vec::new(), actor.clone());
            engine.execute(AddNodes { flow, expected_revision, nodes, edges, actor }).await.unwrap();
        }
        for edges in self.edges.chunks(PART) {
            let (edges, actor) = (edges.to_vec(), actor.clone());
            engine.execute(AddEdges { flow, expected_revision, edges, actor }).await.unwrap();
        }
        let (node, cause) = (None, "it is whole".into());
        engine.execute(Seal { flow, node, expected_revision, actor, cause }).await.unwrap();
    }
}

// ---- who is killed ---------------------------------------------------------------------------------------

/// Works and follows cascades until it is killed, and tells how far it is.
pub async fn follow(url: &str) {
    let Some(fabric) = connect(url).await else { return };
    let engine = fabric.engine().unwrap();
    let Some(poll) = register(engine).await else { return };
    tokio::spawn(work(engine.clone(), poll));
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    loop {
        tick.tick().await;
        let fired = engine.stats().await.map_or(0, |stats| stats.fired);
        println!("@ fired {fired}");
    }
}

async fn work(engine: Engine, poll: Arc<Poll>) {
    loop {
        let Ok(tasks) = engine.poll(poll.clone(), 2, Duration::from_secs(1)).await else { continue };
        for task in tasks {
            let (fence, bad) = (task.execution.fence(), task.execution.spec.kind.as_str() == BAD);
            // What became of it is seen in the end; whoever takes it over does the same.
            let _ = match bad {
                true => {
                    let error = TaskError::new("bad", "it is meant to fail");
                    engine.execute(Fail { fence, error, retry_after_ms: None, seed: 1 }).await
                }
                false => engine.execute(Complete { fence, result: None }).await,
            };
        }
    }
}

async fn register(engine: &Engine) -> Option<Arc<Poll>> {
    let (now, _) = engine.store().status().await.ok()?;
    let instance = engine.new_instance_id(now);
    let (worker, lanes) = (WorkerName::parse("follower").unwrap(), vec![LaneName::default()]);
    let capabilities = Capabilities::default();
    let command = RegisterWorker {
        instance,
        name: worker.clone(),
        lanes: lanes.clone(),
        capabilities: capabilities.clone(),
        build: None,
        server: Some(engine.server().into()),
        owner: None,
        // It gives no signs of life, and must not count as dead before the test is over.
        ttl_ms: 600_000,
    };
    engine.execute(command).await.ok()?;
    let (kinds, namespaces) = (vec![], vec![]);
    Some(Arc::new(Poll { worker, instance, lanes, kinds, namespaces, capabilities }))
}

fn start(url: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    parts::prepare(&mut command, parts::FOLLOWER, url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// How many steps of cascades the process says it has taken; `None` when it has ended.
fn hear(lines: &mut BufReader<ChildStdout>) -> Option<u64> {
    let mut line = String::new();
    while lines.read_line(&mut line).ok()? > 0 {
        if let Some((_, fired)) = line.split_once("@ fired ") {
            return fired.trim().parse().ok();
        }
        line.clear();
    }
    None
}

// ---- the run ---------------------------------------------------------------------------------------------

fn attack(url: &str) {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let [graph, cancelled, outer, inner] = runtime.block_on(async {
        let fabric = connect(url).await.unwrap();
        let engine = fabric.engine().unwrap();
        let now = engine.store().status().await.unwrap().0;
        let graph = Graph::draw(engine, now);
        let cancelled = Graph::waiting(engine, now, engine.new_flow_id(now));
        let [outer, inner] = Graph::nested(engine, now);
        for it in [&graph, &cancelled, &outer] {
            it.store(engine).await;
        }
        let (actor, cause) = (Box::from("parent"), Box::from("enough"));
        let (flow, policy, members_after) = (cancelled.flow, CancelPolicy::CancelAll, 0);
        engine.execute(CancelFlow { flow, policy, members_after, actor, cause }).await.unwrap();
        let (execution, actor, cause) =
            (*outer.ends.keys().next().unwrap(), "parent".into(), "enough".into());
        engine.execute(Cancel { execution, actor, cause, grace_ms: None }).await.unwrap();
        for it in [&cancelled, &inner] {
            let flow = engine.flow(it.flow).await.unwrap().unwrap();
            assert!(flow.live.end.is_none(), "it was over before anybody could be killed: this is no attack");
        }
        fabric.shutdown(Duration::ZERO).await;
        [graph, cancelled, outer, inner]
    });
    let mut rng = Rng::new(seed());
    let mut steps = 0;
    for _ in 0..KILLS {
        let (mut child, mut lines) = start(url);
        let enough = rng.range(3, 40) as u64;
        let mut fired = 0;
        while fired < enough {
            assert!(started.elapsed() < PATIENCE, "{steps} steps after {KILLS} kills at most");
            let Some(now) = hear(&mut lines) else { break };
            fired = now;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        steps += fired;
    }
    let fabric = runtime.block_on(connect(url)).unwrap();
    let before = runtime.block_on(fabric.engine().unwrap().flow(graph.flow)).unwrap().unwrap();
    assert!(before.live.end.is_none(), "everything was over before the last kill: this was no attack");
    let (mut child, mut lines) = start(url);
    // Whoever is not listened to is stopped by a full pipe.
    std::thread::spawn(move || while hear(&mut lines).is_some() {});
    runtime.block_on(async {
        for (it, state, why) in [
            (&graph, FlowState::Failed, "a root fails"),
            (&cancelled, FlowState::Cancelled, "it is cancelled"),
            (&inner, FlowState::Cancelled, "its node is cancelled"),
            (&outer, FlowState::Failed, "a member is cancelled"),
        ] {
            let ended = tokio::time::timeout(PATIENCE, fabric.engine().unwrap().wait_flow(it.flow)).await;
            assert_eq!(ended.expect("the flow ends").unwrap().state(), state, "{why}");
        }
    });
    child.kill().unwrap();
    child.wait().unwrap();
    runtime.block_on(async {
        for it in [&graph, &cancelled, &outer, &inner] {
            check(&fabric, it).await;
        }
        assert_eq!(
            doctor::examine(&**fabric.engine().unwrap().store()).await.unwrap().problems,
            Vec::<String>::new()
        );
        fabric.shutdown(Duration::from_secs(5)).await;
    });
}

/// Each member has ended as the graph says, once, and so has the flow.
async fn check(fabric: &Fabric, graph: &Graph) {
    let engine = fabric.engine().unwrap();
    let mut after = 0;
    let mut seen = 0;
    loop {
        let page = engine.describe_flow(graph.flow, after, PART).await.unwrap();
        for member in &page.members {
            assert_eq!(member.public_state(), graph.ends[&member.id], "{}", member.id);
            seen += 1;
        }
        let Some(next) = page.next else { break };
        after = next;
    }
    assert_eq!(seen, graph.ends.len());
    let partition = graph.flow.route().partition(engine.store().info().partitions);
    let (_, statuses) = engine.store().status().await.unwrap();
    let last = statuses[partition.index()].next_event - 1;
    let mut events = engine.subscribe(EventFilter::default(), Start::Beginning).await.unwrap();
    let (mut endings, mut flow_ends) = (BTreeMap::<ExecutionId, usize>::new(), 0);
    loop {
        let Item::Event { event, partition: home, .. } = events.next().await else { continue };
        if home != partition {
            continue;
        }
        if let (true, Some(id)) = (event.fact.ends(), event.execution) {
            *endings.entry(id).or_default() += 1;
        }
        flow_ends += usize::from(event.fact.word() == "flow_ended" && event.flow == Some(graph.flow));
        if event.number >= last {
            break;
        }
    }
    assert_eq!(flow_ends, 1, "the flow ends once");
    assert!(graph.ends.keys().all(|id| endings.get(id) == Some(&1)), "each member ends once");
}

#[test]
fn on_one_file_a_cascade_goes_on_wherever_its_process_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    attack(&format!("sqlite:{}", folder.path().join("store.db").display()));
}

#[test]
fn on_postgresql_a_cascade_goes_on_wherever_its_process_was_killed() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    attack(&database.url());
}
