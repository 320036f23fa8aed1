//! Random programs: lists of commands made from a seed, the same every time.

mod flows;
mod mail;
mod registry;

use std::sync::Arc;

use ff_core::attempt::{Progress, TaskError};
use ff_core::commands::{self, Command, Poll, When};
use ff_core::execution::Fence;
use ff_core::inbox::Posted;
use ff_core::lane::LaneMode;
use ff_core::limits::Limits;
use ff_core::payload::Payload;
use ff_core::suspension::Token;
use ff_core::{ExecutionId, InstanceId, Ms, PartitionId, Route};

use super::engine::{Answered, claimed};
use super::samples;
use super::stand::START;

/// A small generator of numbers (SplitMix64). Its seed is all there is to it.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// Short lives, so that a program of some minutes sees retention, too.
pub fn limits() -> Limits {
    Limits {
        idempotency_window_ms: 20_000,
        retention_ms: 15_000,
        event_retention_ms: 40_000,
        // Small, so that cascades take many commits.
        cascade_edges_max: 3,
        frames_kept_max: 3,
        frame_retention_ms: 12_000,
        best_effort_ms: 3_000,
        ..Limits::default()
    }
}

/// Makes commands, and follows the replies so that most commands make sense.
#[derive(Debug)]
pub struct Program {
    dice: Dice,
    partitions: u16,
    made: u64,
    executions: Vec<ExecutionId>,
    fences: Vec<Fence>,
    workers: Vec<InstanceId>,
    flows: Vec<flows::Sketch>,
    children: Vec<ExecutionId>,
    tokens: Vec<Token>,
    /// The numbers of posted rows, and where they were posted.
    rows: Vec<(PartitionId, u64)>,
}

impl Program {
    pub fn new(seed: u64, partitions: u16) -> Program {
        Program {
            dice: Dice::new(seed),
            partitions,
            made: 0,
            executions: Vec::new(),
            fences: Vec::new(),
            workers: Vec::new(),
            flows: Vec::new(),
            children: Vec::new(),
            tokens: Vec::new(),
            rows: Vec::new(),
        }
    }

    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// The next batch: a partition and one to six commands for it.
    pub fn batch(&mut self) -> (PartitionId, Vec<Command>) {
        let partition = self.any_partition();
        let count = 1 + self.dice.below(6);
        let mut commands: Vec<Command> = (0..count).filter_map(|_| self.command(partition)).collect();
        commands.sort_by_key(Command::turn);
        (partition, commands)
    }

    pub fn any_partition(&mut self) -> PartitionId {
        PartitionId(self.dice.below(self.partitions.into()) as u16)
    }

    /// Rows that an application posts: some right, some wrong, some with a key that others use.
    pub fn rows(&mut self, partition: PartitionId) -> Vec<Posted> {
        let count = 1 + self.dice.below(2);
        (0..count).map(|_| self.row(partition)).collect()
    }

    fn row(&mut self, partition: PartitionId) -> Posted {
        self.made += 1;
        let key = (self.dice.below(3) == 0).then(|| format!("key {}", self.dice.below(6)));
        let route = key.as_ref().map_or(Route(partition.0), |key| Route::of_key("default", key));
        let id = ExecutionId::from_parts(START + self.made as Ms, route, self.dice.roll());
        self.executions.push(id);
        self.rows.push((id.route().partition(self.partitions), self.made));
        let options =
            [None, Some(r#"{"priority": 7, "tags": {"team": "ä"}}"#), Some(r#"{"priority": 1000}"#)];
        Posted {
            id: Some(id),
            key,
            options: options[self.dice.below(3)].map(str::to_owned),
            lane: (self.dice.below(2) == 0).then(|| "slow lane".to_owned()),
            ..samples::posted(self.partitions, partition, self.made)
        }
    }

    /// Notes what a batch has answered.
    pub fn follow(&mut self, replies: &[Answered]) {
        for execution in replies.iter().flat_map(claimed) {
            self.fences.push(execution.fence());
        }
        self.follow_tokens(replies);
        if self.fences.len() > 40 {
            self.fences.drain(..20);
        }
    }

    fn command(&mut self, partition: PartitionId) -> Option<Command> {
        Some(match self.dice.below(40) {
            0..=5 => self.create(partition),
            6..=8 => self.claim()?,
            9 => commands::Complete { fence: self.fence(partition)?, result: self.result() }.into(),
            10 => self.fail(partition)?,
            11 => commands::Delay::new(self.fence(partition)?, self.ms(5_000)).into(),
            12 => commands::Release::new(self.fence(partition)?).into(),
            13 => self.report(partition)?,
            14 => commands::Renew { fences: vec![self.fence(partition)?, self.fence(partition)?] }.into(),
            15 => self.set_lane(partition)?,
            16 => self.register(partition),
            17 => self.about_worker(partition)?,
            18 => self.about_letter(partition)?,
            19..=24 => self.about_flow(partition)?,
            25..=35 => self.about_mail(partition)?,
            36 | 37 => self.about_registry(partition)?,
            _ => self.about_execution(partition)?,
        })
    }

    fn create(&mut self, partition: PartitionId) -> Command {
        self.made += 1;
        let key = (self.dice.below(4) == 0).then(|| format!("key {}", self.dice.below(6)));
        let mut route = Route(partition.0 + self.partitions * self.dice.below(3) as u16);
        if let Some(key) = &key {
            // A key decides the route; if it leads elsewhere, the submission has none.
            route = Route::of_key("default", key);
        }
        let key = key.filter(|_| route.partition(self.partitions) == partition);
        if key.is_none() {
            route = Route(partition.0);
        }
        let id = ExecutionId::from_parts(START + self.made as Ms, route, self.dice.roll());
        self.executions.push(id);
        let kind = samples::kind(["resize", "charge"][self.dice.below(2)]);
        let input = Payload::json(format!("{{\"n\":{}}}", self.made));
        let mut create = commands::Create::new(id, kind, input);
        create.idempotency_key = key.map(Into::into);
        create.lane = samples::lane_name(["default", "slow lane"][self.dice.below(2)]);
        create.priority = self.dice.below(5) as i8 - 2;
        create.start = (self.dice.below(4) == 0).then(|| When::In(self.ms(8_000)));
        create.deadline = (self.dice.below(6) == 0).then(|| When::In(8_000 + self.ms(20_000)));
        create.policy.lease_ms = 2_000;
        create.policy.schedule_to_start_ms = (self.dice.below(6) == 0).then_some(9_000);
        create.policy.attempt_timeout_ms = (self.dice.below(6) == 0).then_some(1_500);
        if self.dice.below(4) == 0 {
            create.capabilities = samples::capabilities(&["gpu"]);
        }
        if self.dice.below(3) == 0 {
            create.tags = samples::tags(&[("team", samples::ODD)]);
        }
        create.into()
    }

    fn claim(&mut self) -> Option<Command> {
        let poll = Poll {
            worker: samples::worker_name("w"),
            instance: *self.dice.pick(&self.workers)?,
            lanes: vec![samples::lane_name("default"), samples::lane_name("slow lane")],
            kinds: Vec::new(),
            namespaces: Vec::new(),
            capabilities: samples::capabilities(&["gpu"][..self.dice.below(2)]),
        };
        Some(commands::Claim { poll: Arc::new(poll), max: 1 + self.dice.below(4) }.into())
    }

    fn fail(&mut self, partition: PartitionId) -> Option<Command> {
        let fence = self.fence(partition)?;
        let error = TaskError::new("broken", format!("{} {}", samples::ODD, self.dice.below(9)));
        let retry_after_ms = (self.dice.below(2) == 0).then(|| self.ms(3_000));
        Some(commands::Fail { fence, error, retry_after_ms, seed: self.dice.roll() }.into())
    }

    fn report(&mut self, partition: PartitionId) -> Option<Command> {
        let fence = self.fence(partition)?;
        let percent = Some(self.dice.below(101) as u8);
        let progress = Progress { percent, message: Some(samples::odd()), status: None };
        Some(commands::Report { fence, progress }.into())
    }

    fn set_lane(&mut self, partition: PartitionId) -> Option<Command> {
        let lane = samples::lane_name(["default", "slow lane", "third"][self.dice.below(3)]);
        if Route::of_name(&lane).partition(self.partitions) != partition {
            return None;
        }
        let mode = [LaneMode::Open, LaneMode::Open, LaneMode::Paused][self.dice.below(3)];
        let (actor, cause) = by();
        let (step_ms, renewed_events) = (Some(self.ms(60_000)), Some(self.dice.below(2) == 0));
        let (mode, retention_ms) = (Some(mode), None);
        Some(commands::SetLane { lane, mode, step_ms, retention_ms, renewed_events, actor, cause }.into())
    }

    fn register(&mut self, partition: PartitionId) -> Command {
        self.made += 1;
        let instance = InstanceId::from_parts(START, Route(partition.0), self.dice.roll());
        self.workers.push(instance);
        if self.workers.len() > 4 {
            self.workers.remove(0);
        }
        let register = commands::RegisterWorker {
            instance,
            name: samples::worker_name("w"),
            lanes: vec![samples::lane_name("default")],
            capabilities: samples::capabilities(&["gpu"]),
            build: None,
            server: Some(samples::odd()),
            owner: None,
            ttl_ms: 10_000,
        };
        register.into()
    }

    fn about_worker(&mut self, partition: PartitionId) -> Option<Command> {
        let instance = *self.dice.pick(&self.workers)?;
        if instance.route().partition(self.partitions) != partition {
            return None;
        }
        let (actor, cause) = by();
        Some(match self.dice.below(6) {
            0 => commands::BuryWorker { instance, actor, cause }.into(),
            1 => commands::DrainWorker { instance, actor, cause }.into(),
            _ => commands::Heartbeat { instance }.into(),
        })
    }

    /// Often about a row that is no letter.
    fn about_letter(&mut self, partition: PartitionId) -> Option<Command> {
        let here = self.rows.iter().rev().filter(|(home, _)| *home == partition);
        let recent: Vec<u64> = here.take(6).map(|(_, number)| *number).collect();
        let number = *self.dice.pick(&recent)?;
        let (actor, cause) = by();
        Some(match self.dice.below(3) {
            0 | 1 => commands::RepostLetter { partition, number, actor, cause }.into(),
            _ => commands::DropLetter { partition, number, actor, cause }.into(),
        })
    }

    fn about_execution(&mut self, partition: PartitionId) -> Option<Command> {
        let recent = &self.executions[self.executions.len().saturating_sub(40)..];
        let execution = *self.dice.pick(recent)?;
        if execution.route().partition(self.partitions) != partition {
            return None;
        }
        let (actor, cause) = by();
        Some(match self.dice.below(10) {
            0 | 1 => {
                let grace_ms = (self.dice.below(2) == 0).then(|| self.ms(2_000));
                commands::Cancel { execution, actor, cause, grace_ms }.into()
            }
            2 => commands::Hold { execution, actor, cause }.into(),
            3 | 4 => commands::Unhold { execution, actor, cause }.into(),
            5 => {
                let priority = (self.dice.below(201) as i64 - 100) as i8;
                commands::SetPriority { execution, priority, actor, cause }.into()
            }
            6 => commands::Revoke { execution, actor, cause }.into(),
            7 => commands::Replay { execution, actor, cause, ended_by: None }.into(),
            8 => {
                let set = vec![("seen".into(), self.dice.below(9).to_string().into())];
                commands::Tag { execution, set, remove: vec!["team".into()], actor, cause }.into()
            }
            _ => commands::Remove { execution, actor, cause }.into(),
        })
    }

    /// A fence of this partition, most often of a lease that still stands.
    fn fence(&mut self, partition: PartitionId) -> Option<Fence> {
        let home = |fence: &&Fence| fence.execution.route().partition(self.partitions) == partition;
        let here: Vec<Fence> = self.fences.iter().filter(home).copied().collect();
        let recent = &here[here.len().saturating_sub(6)..];
        self.dice.pick(recent).copied()
    }

    fn result(&mut self) -> Option<Payload> {
        (self.dice.below(3) > 0).then(|| Payload::json(format!("{}", self.dice.below(1_000))))
    }

    fn ms(&mut self, max: usize) -> Ms {
        self.dice.below(max) as Ms
    }
}

fn by() -> (Box<str>, Box<str>) {
    ("operator ä".into(), samples::odd())
}
