//! One run: work and faults in turns, then healing, then the check.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use ff_sim::rng::Rng;

use crate::fleet::{Fleet, Role};
use crate::truth::Truth;

/// How many turns of work and faults there are; a turn takes 50 to 350 milliseconds.
const TURNS: usize = 70;
/// For how many turns a process is paused: longer than the lease.
const PAUSE_TURNS: (i64, i64) = (6, 14);
/// How long everything may take to end once the faults are over.
const HEALING: Duration = Duration::from_secs(40);

/// What else goes wrong.
type Outage<'a> = Box<dyn FnMut(Moment, &mut Rng) + 'a>;

/// When an outage may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After so many turns.
    Turn(usize),
    /// The faults are over; whatever is out of order has to be put in order.
    Over,
}

pub struct Attack<'a> {
    /// The address for the processes that are attacked.
    url: String,
    /// The same store for the parent, without anything that breaks in between.
    truth_url: String,
    outage: Outage<'a>,
    seed: u64,
}

/// What all choices of a run follow from; printed, and given to repeat them.
pub fn seed() -> u64 {
    let given = std::env::var("FLOWFABRIC_FAULT_SEED").ok();
    let seed = given.map_or_else(|| RandomState::new().hash_one(0) % 1_000_000, |it| it.parse().unwrap());
    println!("FLOWFABRIC_FAULT_SEED={seed}");
    seed
}

impl<'a> Attack<'a> {
    pub fn on(url: &str) -> Attack<'a> {
        let seed = seed();
        let (url, truth_url) = (url.to_owned(), url.to_owned());
        Attack { url, truth_url, outage: Box::new(|_, _| {}), seed }
    }

    /// The processes that are attacked reach the store by another address.
    pub fn through(mut self, url: &str) -> Attack<'a> {
        self.url = url.to_owned();
        self
    }

    /// Something else may go wrong after each turn.
    pub fn with(mut self, outage: impl FnMut(Moment, &mut Rng) + 'a) -> Attack<'a> {
        self.outage = Box::new(outage);
        self
    }

    pub fn run(mut self) {
        let mut rng = Rng::new(self.seed);
        let mut truth = Truth::default();
        let mut fleet = Fleet::new(&self.url);
        for role in [Role::Teller, Role::Program, Role::Teller, Role::Program, Role::Submitter, Role::Command]
        {
            fleet.start(role, &truth);
        }
        // The faults meet a fleet at work, not one that is starting.
        let deadline = Instant::now() + HEALING;
        while truth.completions() == 0 {
            assert!(Instant::now() < deadline, "nothing is completed: {}, {truth}", fleet.tally());
            fleet.ask(&mut truth, 1);
            fleet.listen(&mut truth, Duration::from_millis(100));
        }
        for turn in 0..TURNS {
            fleet.ask(&mut truth, 1 + rng.below(10));
            fleet.listen(&mut truth, Duration::from_millis(rng.range(50, 350) as u64));
            fleet.resume_those_due(turn);
            let pause = turn + rng.range(PAUSE_TURNS.0, PAUSE_TURNS.1) as usize;
            match rng.below(4) {
                0 => fleet.kill_one(&mut rng, &truth),
                1 => fleet.pause_one(&mut rng, pause, &[]),
                // Those whose answers are known, so that some come back to a lease that has gone.
                2 | 3 if turn % 4 == 0 => fleet.pause_one(&mut rng, pause, &[Role::Teller]),
                _ => {}
            }
            (self.outage)(Moment::Turn(turn), &mut rng);
        }
        (self.outage)(Moment::Over, &mut rng);
        fleet.resume_those_due(usize::MAX);
        // It takes several tries where others compete for the cores.
        fleet.overtake(&mut truth, Instant::now() + 3 * HEALING);
        let deadline = Instant::now() + HEALING;
        fleet.listen_until(&mut truth, deadline, "all submissions", |truth| truth.pending().is_empty());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let fabric = runtime.block_on(flowfabric::connect(&self.truth_url)).unwrap();
        let ended = runtime.block_on(truth.wait_for_all(&fabric, HEALING));
        fleet.stop(&mut truth);
        println!("{}, {truth}", fleet.tally());
        ended.unwrap_or_else(|unended| panic!("{unended}"));
        runtime.block_on(truth.check(&fabric));
        runtime.block_on(fabric.shutdown(Duration::from_secs(5)));
    }
}
