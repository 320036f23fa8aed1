//! Random programs: whatever is asked in whatever order, every invariant holds after every step.

use std::sync::Arc;

use proptest::prelude::*;

use super::testing::*;
use super::*;
use crate::agenda::{AgendaKey, Subject};
use crate::execution::Fence;
use crate::flow::{CancelPolicy, Join, On};
use crate::id::{ExecutionId, FlowId, InstanceId};
use crate::inbox::Fate;
use crate::lane::LaneMode;
use crate::name::LaneName;
use crate::policy::LeaseLoss;
use crate::stream::FrameMode;
use crate::suspension::{Condition, Distinct, Match, OnTimeout, WaitpointId};

/// One step of a program. Numbers pick among what exists when the step is taken.
#[derive(Clone, Debug)]
enum Step {
    Create {
        shape: u8,
        priority: i8,
        key: Option<u8>,
    },
    /// A row is posted and received.
    Post {
        priority: i64,
        key: Option<u8>,
    },
    /// What was given up is posted again or dropped.
    Letter {
        again: bool,
        letter: usize,
    },
    /// A flow is created with a few nodes; the number draws its graph.
    Flow {
        graph: u64,
    },
    /// Nodes and edges are added to a flow, by somebody outside or by a member that completes.
    Grow {
        flow: usize,
        graph: u64,
        fence: Option<usize>,
    },
    /// A flow, or one of its nodes, is sealed, gets a policy, or is cancelled.
    Shape {
        flow: usize,
        verb: u8,
        node: usize,
    },
    Claim {
        lanes: u8,
        max: usize,
    },
    Call {
        call: usize,
        fence: usize,
    },
    /// A suspension, a signal or a key; the number draws which.
    Mail {
        verb: u64,
        fence: usize,
        execution: usize,
    },
    Stale {
        fence: usize,
    },
    Operate {
        verb: u8,
        execution: usize,
    },
    Lane {
        lane: u8,
        mode: u8,
        step_ms: i64,
    },
    Worker {
        verb: u8,
    },
    Jump {
        ms: Ms,
    },
    Fire {
        after_outage: bool,
    },
    /// Only how the store gets it: decided again after a rollback, sent, landed, lost.
    RollBack,
    Send,
    Land,
    Conflict,
    /// Another server goes on.
    Switch,
}

fn step() -> impl Strategy<Value = Step> {
    let ms = prop_oneof![0..2_000i64, 2_000..70_000i64];
    prop_oneof![
        6 => (any::<u8>(), -2..3i8, prop::option::weighted(0.2, 0..3u8))
            .prop_map(|(shape, priority, key)| Step::Create { shape, priority, key }),
        3 => (90..110i64, prop::option::weighted(0.4, 0..3u8))
            .prop_map(|(priority, key)| Step::Post { priority, key }),
        1 => (any::<bool>(), any::<usize>()).prop_map(|(again, letter)| Step::Letter { again, letter }),
        3 => any::<u64>().prop_map(|graph| Step::Flow { graph }),
        3 => (any::<usize>(), any::<u64>(), prop::option::of(any::<usize>()))
            .prop_map(|(flow, graph, fence)| Step::Grow { flow, graph, fence }),
        2 => (any::<usize>(), 0..7u8, any::<usize>())
            .prop_map(|(flow, verb, node)| Step::Shape { flow, verb, node }),
        6 => (1..4u8, 0..4usize).prop_map(|(lanes, max)| Step::Claim { lanes, max }),
        9 => (0..11usize, any::<usize>()).prop_map(|(call, fence)| Step::Call { call, fence }),
        8 => (any::<u64>(), any::<usize>(), any::<usize>())
            .prop_map(|(verb, fence, execution)| Step::Mail { verb, fence, execution }),
        2 => any::<usize>().prop_map(|fence| Step::Stale { fence }),
        6 => (0..10u8, any::<usize>()).prop_map(|(verb, execution)| Step::Operate { verb, execution }),
        1 => (0..2u8, 0..3u8, 0..100_000i64)
            .prop_map(|(lane, mode, step_ms)| Step::Lane { lane, mode, step_ms }),
        1 => (0..5u8).prop_map(|verb| Step::Worker { verb }),
        6 => ms.prop_map(|ms| Step::Jump { ms }),
        8 => prop::bool::weighted(0.1).prop_map(|after_outage| Step::Fire { after_outage }),
        1 => Just(Step::RollBack),
        2 => Just(Step::Send),
        2 => Just(Step::Land),
    ]
}

/// Also steps after which two programs may part: what a sweep finds depends on what is stored.
fn any_step() -> impl Strategy<Value = Step> {
    let days = (0..9 * 24 * 3_600_000i64).prop_map(|ms| Step::Jump { ms });
    prop_oneof![30 => step(), 1 => Just(Step::Conflict), 2 => Just(Step::Switch), 2 => days]
}

/// A bench and what a program has got from it so far.
struct World {
    bench: Bench,
    ids: Vec<ExecutionId>,
    flows: Vec<FlowId>,
    fences: Vec<Fence>,
    /// The numbers of rows that were given up.
    letters: Vec<u64>,
    workers: Vec<InstanceId>,
    roll_back_next: bool,
}

impl World {
    fn new(memory: Memory, batch_size: usize, cascade_edges_max: usize) -> World {
        let limits = Limits { cascade_edges_max, ..Limits::default() };
        let mut bench = Bench::of(PartitionId(0), 3, limits);
        (bench.memory, bench.batch_size) = (memory, batch_size);
        let workers = vec![bench.worker];
        let (ids, flows, fences, letters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        World { bench, ids, flows, fences, letters, workers, roll_back_next: false }
    }

    fn run(&mut self, command: impl Into<Command>) -> Result<Reply, Rejection> {
        let command = command.into();
        if std::mem::take(&mut self.roll_back_next)
            && decide(&mut self.bench.ws, self.bench.now, &command).is_ok()
        {
            self.bench.ws.roll_back();
        }
        let result = self.bench.run(command);
        match &result {
            Ok(Reply::Claimed(claimed)) => self.fences.extend(claimed.iter().map(|it| it.fence())),
            Ok(Reply::Created { execution, existing: false }) => self.ids.push(*execution),
            _ => {}
        }
        result
    }

    /// Takes a step that the program can see; `None` for steps of the store, or if there is nothing to pick.
    fn take(&mut self, step: &Step) -> Option<Result<Reply, Rejection>> {
        let pick = |number: usize, len: usize| (len > 0).then(|| number % len);
        Some(match step {
            Step::Create { shape, priority, key } => {
                let create = self.submission(*shape, *priority, *key);
                self.run(create)
            }
            Step::Post { priority, key } => {
                let receive = self.bench.posted(|it| {
                    // Rows without an id get one that suits their key; a bad priority makes a dead letter.
                    it.id = it.id.filter(|_| key.is_none());
                    it.key = key.map(|key| format!("key-{key}"));
                    it.options = Some(format!(r#"{{"priority":{priority}}}"#));
                });
                let number = receive.posted.number;
                let result = self.run(receive);
                if let Ok(Reply::Received(Fate::Dead { .. })) = result {
                    self.letters.push(number);
                }
                result
            }
            Step::Letter { again, letter } => {
                let number = self.letters[pick(*letter, self.letters.len())?];
                if *again { self.run(repost_letter(number)) } else { self.run(drop_letter(number)) }
            }
            Step::Flow { graph } => {
                let id = FlowId(self.bench.next_id().0);
                let (nodes, edges) = self.graph(*graph, None);
                let open = nodes.iter().any(|node| node.open);
                self.grow(id, CreateFlow { sealed: graph % 3 > 0 && !open, nodes, edges, ..empty_flow(id) })
            }
            Step::Grow { flow, graph, fence: None } => {
                let flow = self.flows[pick(*flow, self.flows.len())?];
                let (nodes, edges) = self.graph(*graph, Some(flow));
                let (expected_revision, actor) = (None, "op".into());
                if graph % 4 == 0 {
                    self.run(AddEdges { flow, expected_revision, edges, actor })
                } else {
                    self.grow(flow, AddNodes { flow, expected_revision, nodes, edges, actor })
                }
            }
            Step::Grow { graph, fence: Some(fence), .. } => {
                let fence = self.fences[pick(*fence, self.fences.len())?];
                let flow = self.bench.current(fence.execution)?.flow()?;
                let (mut nodes, mut edges) = self.graph(*graph, Some(flow));
                nodes.iter_mut().for_each(|node| node.open = false);
                let first = nodes.first().map(|node| node.create.id);
                edges.extend(first.map(|id| NewEdge::new(fence.execution, id)));
                self.grow(flow, Expand { fence, result: None, nodes, edges })
            }
            Step::Shape { flow, verb, node } => {
                let flow = self.flows[pick(*flow, self.flows.len())?];
                let node = self.ids[pick(*node, self.ids.len())?];
                match verb {
                    0 | 1 => self.run(seal(flow)),
                    2 => self.run(Seal { node: Some(node), ..seal(flow) }),
                    3 => self.run(set_group_policy(flow, node, joins()[usize::from(*verb)])),
                    _ => self.run(cancel_flow(flow, CancelPolicy::ALL[usize::from(*verb - 4)])),
                }
            }
            Step::Claim { lanes, max } => {
                let wanted = [LaneName::default(), lane("second")].into_iter().enumerate();
                let lanes = wanted.filter(|(n, _)| lanes & (1 << n) != 0).map(|(_, lane)| lane).collect();
                let poll = Poll { lanes, ..self.bench.poll() };
                self.run(Claim { poll: Arc::new(poll), max: *max })
            }
            Step::Call { call, fence } => {
                let fence = self.fences[pick(*fence, self.fences.len())?];
                self.run(worker_calls(fence).swap_remove(*call))
            }
            Step::Mail { verb, fence, execution } => {
                let fence = pick(*fence, self.fences.len()).map(|at| self.fences[at]);
                let id = self.ids[pick(*execution, self.ids.len())?];
                self.mail(*verb, fence, id)?
            }
            Step::Stale { fence } => {
                let fence = self.fences[pick(*fence, self.fences.len())?];
                self.call_stale(fence);
                return None;
            }
            Step::Operate { verb, execution } => {
                let id = self.ids[pick(*execution, self.ids.len())?];
                match verb {
                    0 => self.run(cancel(id, None)),
                    1 => self.run(cancel(id, Some(10_000))),
                    2 => self.run(hold(id)),
                    3 => self.run(unhold(id)),
                    4 => self.run(revoke(id)),
                    5 => self.run(replay(id)),
                    6 => self.run(set_priority(id, (*execution % 7) as i8 - 3)),
                    7 => self.run(tag(id, "n", &(execution % 3).to_string())),
                    8 => self.run(remove(id)),
                    _ => self.run(cancel(id, Some(0))),
                }
            }
            Step::Lane { lane, mode, step_ms } => {
                let name = if *lane == 0 { "default" } else { "second" };
                let mode = Some(LaneMode::ALL[usize::from(*mode)]);
                self.run(SetLane { mode, step_ms: Some(*step_ms), ..set_lane(name) })
            }
            Step::Worker { verb } => self.change_worker(*verb),
            Step::Jump { ms } => {
                self.bench.jump(*ms);
                return None;
            }
            Step::Fire { after_outage } => {
                let entry = self.bench.first_due()?;
                self.run(Fire { entry, seed: entry.due as u64, after_outage: *after_outage })
            }
            Step::RollBack | Step::Send | Step::Land | Step::Conflict | Step::Switch => return None,
        })
    }

    fn mail(&mut self, verb: u64, fence: Option<Fence>, id: ExecutionId) -> Option<Result<Reply, Rejection>> {
        let names = ["go", "yes", "no"];
        let name = names[(verb / 16 % 3) as usize];
        let source = ["ann", "bob"][(verb / 64 % 2) as usize];
        let number = 1 + (verb / 128 % 3) as u32;
        Some(match verb % 16 {
            0..=3 => self.run(SendSignal {
                source: (verb & 256 == 0).then(|| source.into()),
                key: (verb & 512 == 0).then(|| name.into()),
                ..signal(id, name)
            }),
            4 => {
                let waitpoint = WaitpointId { execution: id, number };
                self.run(SendSignal {
                    source: Some(source.into()),
                    ..SendSignal::new(To::Waitpoint(waitpoint))
                })
            }
            5 | 6 => self.run(resume(id)),
            7 => match verb / 256 % 8 {
                0..=2 => self.run(rotate_key(number as u8, 60_000)),
                verb => self.register(verb, u64::from(number)),
            },
            8 | 9 => {
                let mut open = open_waitpoint(fence?, name);
                open.waitpoint.expires_in_ms = (verb & 1024 == 0).then_some(7_000);
                open.waitpoint.distinct_sources = verb & 2048 == 0;
                open.step = (verb & 4096 == 0).then(|| step_place(name, number));
                self.run(open)
            }
            10 => {
                let mut child = start_child(fence?);
                child.step = (verb & 256 == 0).then(|| step_place(name, number));
                self.run(child)
            }
            11 => {
                let fence = fence?;
                let known = match self.bench.ws.stream(fence.execution) {
                    Ok(known) => known.map(|it| it.next),
                    Err(_) => self.bench.store.streams.get(&fence.execution).map(|it| it.next),
                };
                let first = known.unwrap_or(1);
                let mut frames = append(fence, first.saturating_sub(u64::from(number) - 1).max(1), 3);
                frames.frames[0].mode = FrameMode::BestEffort;
                self.run(frames)
            }
            _ => self.run(self.suspension(verb, fence?, name, number)),
        })
    }

    fn register(&mut self, verb: u64, number: u64) -> Result<Reply, Rejection> {
        let id = ["a", "b", "c"][(number % 3) as usize];
        match verb {
            // The same number takes the same way, so that parts and takings meet operations that are there.
            3 if number == 2 => self.run(start_bulk("a")),
            4 if number == 2 => self.run(take_bulk(None, Some("server"))),
            5 if number == 2 => self.run(advance_bulk(1, Reached::Ids(1))),
            6 if number == 2 => self.run(stop_bulk("a")),
            3 => self.run(CreateToken { expires_in_ms: Some(1_000), ..create_token(id, number as u8) }),
            4 => self.run(revoke_token(id)),
            5 => self.run(SetWebhook { paused: number == 1, ..set_webhook("hook") }),
            6 if number == 1 => self.run(take_webhook(None, Some("server"))),
            6 => self.run(note_delivery(number, None, "c1.5", 500)),
            _ => self.run(remove_webhook("hook")),
        }
    }

    /// A suspension with a condition drawn from a number.
    fn suspension(&self, verb: u64, fence: Fence, name: &str, number: u32) -> Suspend {
        let at = Condition::Signal(Match::waitpoint(number));
        let children = self.bench.current(fence.execution);
        let child = children.and_then(|it| it.mailbox()?.children.first().copied());
        let distinct =
            [Distinct::Signals, Distinct::Sources, Distinct::Waitpoints][(verb / 1024 % 3) as usize];
        let condition = match verb / 8192 % 8 {
            0 | 1 => named(name),
            2 => Condition::AnyOf(vec![named(name), at]),
            3 => Condition::AllOf(vec![named("yes"), named("no")]),
            4 => Condition::Count { n: 2, distinct, of: vec![] },
            5 => child.map_or(Condition::Operator, Condition::Child),
            6 => Condition::Time,
            _ => at,
        };
        Suspend {
            condition,
            on_timeout: OnTimeout::ALL[(verb / 65_536 % 5) as usize],
            step: (verb & 1 << 20 == 0).then(|| step_place(name, number)),
            ..suspend(fence)
        }
    }

    /// Runs a command that adds members to a flow, and remembers them.
    fn grow(&mut self, flow: FlowId, command: impl Into<Command>) -> Result<Reply, Rejection> {
        let command = command.into();
        command.validate(&self.bench.ws.limits)?;
        let nodes = match &command {
            Command::CreateFlow(it) => &it.nodes,
            Command::AddNodes(it) => &it.nodes,
            Command::Expand(it) => &it.nodes,
            _ => &Vec::new(),
        };
        let mut ids: Vec<ExecutionId> = nodes.iter().map(|node| node.create.id).collect();
        let children: Vec<&NewChild> = nodes.iter().filter_map(|node| node.child.as_deref()).collect();
        ids.extend(children.iter().flat_map(|child| &child.nodes).map(|node| node.create.id));
        let inner: Vec<FlowId> = children.iter().map(|child| child.id).collect();
        let result = self.run(command);
        if result.is_ok() {
            self.ids.extend(ids);
            self.flows.extend(inner);
            self.flows.extend(Some(flow).filter(|_| !self.flows.contains(&flow)));
        }
        result
    }

    /// A few new nodes with random edges among them, and with edges from and to what a flow has already.
    fn graph(&mut self, seed: u64, flow: Option<FlowId>) -> (Vec<NewNode>, Vec<NewEdge>) {
        let (mut nodes, edges) = self.flat_graph(seed, flow);
        if seed.is_multiple_of(5) {
            let (inner, inner_edges) = self.flat_graph(seed / 5, None);
            let id = FlowId(self.bench.next_id().0);
            let sealed = inner.iter().all(|node| !node.open);
            let (kind, tags) = ("inner".parse().expect("a kind"), Default::default());
            let child = NewChild { id, kind, tags, nodes: inner, edges: inner_edges, sealed };
            nodes.last_mut().expect("a node").child = Some(Box::new(child));
        }
        (nodes, edges)
    }

    fn flat_graph(&mut self, seed: u64, flow: Option<FlowId>) -> (Vec<NewNode>, Vec<NewEdge>) {
        let mut bits = seed | 1;
        let mut draw = |n: u64| {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            bits % n
        };
        let mut nodes = Vec::new();
        for _ in 0..1 + draw(5) {
            let (shape, join) = (draw(256) as u8, joins()[draw(7) as usize]);
            let mut create = self.submission(shape & 0b1110_1011, 0, None);
            create.policy.max_attempts = 1 + draw(2) as u32;
            nodes.push(NewNode { join, open: draw(5) == 0, ..NewNode::new(create) });
        }
        let own =
            |id: &ExecutionId| flow.is_some() && self.bench.current(*id).and_then(|it| it.flow()) == flow;
        let old: Vec<ExecutionId> = self.ids.iter().copied().filter(own).rev().take(4).collect();
        let ends: Vec<ExecutionId> = old.into_iter().chain(nodes.iter().map(|it| it.create.id)).collect();
        let mut edges = Vec::new();
        for to in 0..ends.len() {
            for from in 0..to {
                let on = On::ALL[draw(3) as usize];
                if draw(3) == 0 {
                    edges.push(NewEdge { on, ..NewEdge::new(ends[from], ends[to]) });
                }
            }
        }
        // A policy that asks for more than there is would refuse nearly every graph.
        for node in &mut nodes {
            let inbound = edges.iter().filter(|edge| edge.downstream == node.create.id).count() as u32;
            if node.join.need(inbound) > inbound {
                node.join = Join::AllOf;
            }
        }
        (nodes, edges)
    }

    fn change_worker(&mut self, verb: u8) -> Result<Reply, Rejection> {
        let instance = self.bench.worker;
        match verb {
            0 => self.run(drain(instance)),
            1 => self.run(bury(instance)),
            2 => self.run(Heartbeat { instance }),
            3 => self.acknowledge(),
            _ => {
                let instance = self.bench.new_instance();
                self.bench.worker = instance;
                self.workers.push(instance);
                let registration = self.bench.registration(instance);
                self.run(RegisterWorker { ttl_ms: 50_000, ..registration })
            }
        }
    }

    /// Another partition has applied the first message that it has not acknowledged.
    fn acknowledge(&mut self) -> Result<Reply, Rejection> {
        self.bench.first_due();
        let is_message = |key: &&AgendaKey| matches!(key.subject, Subject::Deliver { .. });
        let first = self.bench.ws.agenda().iter().map(|(key, _)| key).find(is_message).copied();
        match first {
            Some(entry) => self.run(Acknowledge { entry }),
            None => Ok(Reply::Acknowledged),
        }
    }

    fn submission(&mut self, shape: u8, priority: i8, key: Option<u8>) -> Create {
        let bit = |n: u8| shape & (1 << n) != 0;
        let mut create = Create { priority, ..self.bench.submission() };
        create.lane = if bit(0) { lane("second") } else { LaneName::default() };
        create.kind = kind(if bit(1) { "other" } else { "work" });
        create.start = bit(2).then_some(When::In(5_000));
        create.deadline = bit(3).then_some(When::In(100_000));
        create.policy.attempt_timeout_ms = bit(4).then_some(20_000);
        create.policy.schedule_to_start_ms = bit(5).then_some(15_000);
        create.policy.lease_loss = if bit(6) { LeaseLoss::Counts } else { LeaseLoss::Uncounted };
        create.policy.losses_max = if bit(7) { 2 } else { 5 };
        create.policy.replays_max = 2;
        create.idempotency_key = key.map(|key| format!("key-{key}").into());
        create
    }

    /// A fence that is not that of a standing lease must not change anything.
    fn call_stale(&mut self, fence: Fence) {
        let id = fence.execution;
        let Some(before) = self.bench.current(id) else { return };
        if before.lease().is_some() && before.fence() == fence {
            return;
        }
        for call in worker_calls(fence) {
            let next_event = self.bench.ws.header().next_event;
            let _ = self.bench.run(call);
            assert_eq!(self.bench.current(id).as_ref(), Some(&before));
            assert_eq!(self.bench.ws.header().next_event, next_event);
        }
    }

    /// Takes a step of the store.
    fn move_store(&mut self, step: &Step) {
        match step {
            Step::RollBack => self.roll_back_next = true,
            Step::Send => self.bench.send(),
            Step::Land => drop(self.bench.land()),
            Step::Conflict => self.bench.conflict(),
            Step::Switch => self.bench.switch(),
            _ => {}
        }
    }
}

fn joins() -> [Join; 7] {
    use crate::flow::OnSatisfied::{CancelRemaining, LetRun};
    [
        Join::AllOf,
        Join::AllOf,
        Join::AnyOf { on_satisfied: CancelRemaining },
        Join::AnyOf { on_satisfied: LetRun },
        Join::Quorum { k: 2, on_satisfied: CancelRemaining },
        Join::Quorum { k: 2, on_satisfied: LetRun },
        Join::Quorum { k: 1, on_satisfied: CancelRemaining },
    ]
}

/// A few hundred programs; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_invariant_holds_after_every_step(
        steps in prop::collection::vec(any_step(), 1..120),
        memory in prop::sample::select(vec![Memory::Everything, Memory::Windows, Memory::Nothing]),
        batch_size in prop::sample::select(vec![0usize, 1, 1, 3]),
        cascade in prop::sample::select(vec![1usize, 2, 1_000]),
    ) {
        let mut world = World::new(memory, batch_size, cascade);
        for step in &steps {
            world.take(step);
            world.move_store(step);
        }
        world.bench.commit();
    }

    #[test]
    fn batches_rollbacks_and_a_slow_store_change_neither_replies_nor_the_final_state(
        steps in prop::collection::vec(step(), 1..100),
        memory in prop::sample::select(vec![Memory::Everything, Memory::Windows]),
        cascade in prop::sample::select(vec![1usize, 2, 1_000]),
    ) {
        let mut plain = World::new(Memory::Everything, 1, cascade);
        let mut batched = World::new(memory, 0, cascade);
        for step in &steps {
            prop_assert_eq!(plain.take(step), batched.take(step));
            batched.move_store(step);
        }
        plain.bench.commit();
        batched.bench.commit();
        prop_assert_eq!(&plain.bench.store.executions, &batched.bench.store.executions);
        // Other batches, other commits; what they add up to is the same.
        batched.bench.store.log = plain.bench.store.log.clone();
        prop_assert_eq!(&plain.bench.store, &batched.bench.store);
    }
}
