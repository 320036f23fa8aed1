//! The world: servers, one store, clients, workers, and everything on its way between them, under one
//! virtual clock.

mod application;
pub mod call;
mod client;
mod contest;
mod flow;
mod graph;
mod healing;
mod mail;
mod moving;
mod network;
mod queue;
mod registry;
mod requests;
mod server;
mod store;
mod submission;
mod trouble;
mod worker;

use ff_core::{ExecutionId, FlowId, Ms};

use crate::bug::Bug;
use crate::check::Check;
use crate::fault::{Fault, Tally};
use crate::profile::Profile;
use crate::rng::Rng;
use crate::trace::Trace;
use call::Call;
use queue::{Happening, Queue};
use server::Server;
use store::SimStore;
use worker::Worker;

/// When the virtual clock starts.
pub const START: Ms = 1_800_000_000_000;

macro_rules! trace {
    ($world:expr, $($text:tt)+) => {
        $world.trace.line(format_args!("{:>7} {}", $world.now - $crate::world::START, format_args!($($text)+)))
    };
}
use trace;

#[derive(Debug)]
pub struct World {
    rng: Rng,
    profile: Profile,
    bug: Option<Bug>,
    now: Ms,
    queue: Queue,
    servers: Vec<Server>,
    store: SimStore,
    calls: Vec<Call>,
    workers: Vec<Worker>,
    /// Executions that clients have submitted.
    known: Vec<ExecutionId>,
    /// Flows that clients have submitted.
    flows: Vec<FlowId>,
    next_ticket: u64,
    outage_until: Ms,
    healed: Option<healing::Healing>,
    pub trace: Trace,
    pub tally: Tally,
    pub steps: u64,
    pub commands: u64,
}

impl World {
    pub fn new(seed: u64, steps: Option<u64>, bug: Option<Bug>, whole_trace: bool) -> World {
        let mut rng = Rng::new(seed);
        let mut profile = Profile::draw(&mut rng, steps, bug);
        profile.draw_distance(&mut Rng::new(!seed));
        profile.draw_flows(&mut Rng::new(seed.rotate_left(32)));
        profile.draw_mail(&mut Rng::new(seed.rotate_left(16)));
        profile.draw_errands(&mut Rng::new(seed.rotate_left(48)));
        if bug.is_none() {
            profile.draw_moves(&mut Rng::new(!seed.rotate_left(16)));
        }
        let mut world = World {
            rng,
            profile,
            bug,
            now: START,
            queue: Queue::default(),
            servers: Vec::new(),
            store: SimStore::new(bug),
            calls: Vec::new(),
            workers: Vec::new(),
            known: Vec::new(),
            flows: Vec::new(),
            next_ticket: 1,
            outage_until: START,
            healed: None,
            trace: Trace::new(whole_trace),
            tally: Tally::default(),
            steps: 0,
            commands: 0,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        if self.profile.far > 1 {
            self.tally.count(Fault::FarServer);
        }
        for server in 0..self.profile.servers {
            let skew = self.profile.skew_ms;
            let drift = self.profile.drift_ppm;
            let (offset, drift) = (self.rng.range(0, skew), self.rng.range(-drift, drift));
            self.servers.push(Server::new(offset, drift));
            self.later(0, 50, Happening::ServerStarts { server });
        }
        for client in 0..self.profile.clients {
            self.later(0, 100, Happening::ClientWakes { client });
        }
        for _ in 0..self.profile.workers {
            self.add_worker(false);
        }
        self.later(0, self.profile.post_ms, Happening::ApplicationPosts);
        if let Some(pause) = self.profile.flow_ms {
            self.later(0, pause, Happening::FlowClientWakes);
        }
        self.later(0, 100, Happening::SubscriberReads);
        self.later(500, 1_500, Happening::Trouble);
    }

    /// Runs until everything that was begun has ended and been swept away.
    pub fn run(&mut self) -> Check {
        while self.steps < self.profile.chaos_steps {
            if let Some((after, partitions)) = self.profile.moves
                && self.steps == after
            {
                self.profile.moves = None;
                self.move_store(partitions)?;
            }
            self.step()?;
        }
        self.store.check_all()?;
        self.heal();
        while !self.is_over()? {
            self.step()?;
        }
        self.final_check()
    }

    fn step(&mut self) -> Check {
        let Some((at, what)) = self.queue.next() else { return Err("nothing will ever happen again".into()) };
        self.now = self.now.max(at);
        self.steps += 1;
        match what {
            Happening::StoreHears { server, life, request } => self.store_hears(server, life, request),
            Happening::LateCommit(commit) => self.late_commit(commit),
            Happening::ServerHears { server, life, input } => self.server_hears(server, life, input),
            Happening::ErrandsArrive { to, from, lines } => self.errands_arrive(&to, from, lines),
            Happening::ServerTurns { server, life } => self.server_turns(server, life),
            Happening::ServerLooksAround { server, life } => self.server_looks_around(server, life),
            Happening::ServerStarts { server } => self.server_starts(server),
            Happening::CallArrives { call, server } => self.call_arrives(call, server),
            Happening::ReplyArrives { call, result } => self.reply_arrives(call, result),
            Happening::CallTimesOut { call } => self.call_times_out(call),
            Happening::ClientWakes { client } => self.client_wakes(client),
            Happening::FlowClientWakes => self.flow_client_wakes(),
            Happening::WorkerWakes { worker, life } => self.worker_wakes(worker, life),
            Happening::SubscriberReads => self.subscriber_reads(),
            Happening::ApplicationPosts => self.application_posts(),
            Happening::Trouble => self.trouble(),
            Happening::AdminLooks => self.admin_looks(),
        }
    }

    fn later(&mut self, least: Ms, most: Ms, what: Happening) {
        let at = self.now + self.rng.range(least, most);
        self.queue.add(&mut self.rng, at, what);
    }

    fn subscriber_reads(&mut self) -> Check {
        for (partition, _) in self.store.state.partitions() {
            let limit = self.rng.below(50) + 1;
            if self.rng.chance(5_000) {
                self.store.subscriber.read(&self.store.state, partition, limit)?;
            }
        }
        let pause = if self.healed.is_some() { 2_000 } else { 300 };
        self.later(1, pause, Happening::SubscriberReads);
        Ok(())
    }

    /// Draws whether a fault happens, and counts it.
    fn fault(&mut self, rate: crate::rng::Rate, fault: Fault) -> bool {
        let happens = self.rng.chance(rate);
        if happens {
            self.tally.count(fault);
        }
        happens
    }
}
