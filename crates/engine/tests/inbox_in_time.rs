//! How long posted rows wait, told by a clock that only the test moves. The engine runs as in production: each call
//! makes it look at the clock once, and it looks at the store as often as its own settings say.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::commands::Create;
use ff_core::event::Fact;
use ff_core::inbox::Posted;
use ff_core::{ExecutionId, Kind, Ms, Payload, Route};
use ff_engine::machine::affinity::ranks;
use ff_engine::{Engine, EngineConfig, Start};
use ff_store::{Clock, ManualClock, MemoryStore, Store};

const PARTITIONS: u16 = 8;
const START: Ms = 1_800_000_000_000;
/// What is promised.
const WITHIN_MS: Ms = 200;
/// A row is seen, read, decided, committed and told of: more often than that nothing goes to the store and back.
const ROUND_TRIPS: usize = 8;

struct Stand {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    engines: Vec<Engine>,
    posted: BTreeMap<ExecutionId, Ms>,
}

impl Stand {
    async fn new(engines: usize, silent: &[&str]) -> Stand {
        let clock = Arc::new(ManualClock::at(START));
        let store = Arc::new(MemoryStore::with_clock(PARTITIONS, clock.clone()));
        for name in silent {
            store.beat((*name).to_owned()).await.unwrap();
        }
        let mut stand = Stand { clock, store, engines: Vec::new(), posted: BTreeMap::new() };
        for _ in 0..engines {
            let config = EngineConfig { local_clock: Some(stand.clock.clone()), ..EngineConfig::default() };
            stand.engines.push(Engine::start(stand.store.clone(), config).await.unwrap());
        }
        // Everybody hears of everybody.
        stand.pass(2_000).await;
        stand
    }

    /// Time passes, and everything that can happen by itself happens.
    async fn pass(&mut self, ms: Ms) {
        for _ in 0..ms {
            self.clock.advance(1);
            for engine in self.engines.iter().cycle().take(self.engines.len() * ROUND_TRIPS) {
                engine.stats().await.unwrap();
            }
        }
    }

    fn post(&mut self, route: u16) {
        let number = self.posted.len() as u64 + 1;
        let (now, id) = (self.clock.now(), ExecutionId::from_parts(START, Route(route), number));
        self.posted.insert(id, now);
        self.store.post(Posted {
            number,
            id: Some(id),
            posted_at: now,
            kind: "work".to_owned(),
            input: Payload::json("{}"),
            namespace: None,
            lane: None,
            key: None,
            options: None,
        });
    }

    /// How long each row has waited before it became an execution.
    fn waited(&self) -> BTreeMap<ExecutionId, Ms> {
        let mut waited = BTreeMap::new();
        self.store.inspect(|state| {
            for event in state.partitions().flat_map(|(_, it)| it.events()) {
                if let (Fact::Created { .. }, Some(id)) = (&event.fact, event.execution)
                    && let Some(posted_at) = self.posted.get(&id)
                {
                    waited.insert(id, event.at - posted_at);
                }
            }
        });
        assert_eq!(waited.len(), self.posted.len(), "every row has become an execution");
        waited
    }

    fn longest(&self) -> Ms {
        self.waited().into_values().max().unwrap()
    }
}

#[tokio::test]
async fn an_idle_server_takes_rows_in_time() {
    let mut stand = Stand::new(1, &[]).await;
    for route in 0..20 {
        stand.post(route);
        stand.pass(37).await;
    }
    stand.pass(WITHIN_MS).await;
    let longest = stand.longest();
    assert!((1..=WITHIN_MS).contains(&longest), "a row has waited {longest} ms");
}

#[tokio::test]
async fn a_server_at_work_takes_rows_in_time() {
    let mut stand = Stand::new(1, &[]).await;
    // Somebody listens, and something is submitted all the time.
    let listens = stand.engines[0].subscribe(Default::default(), Start::Now).await.unwrap();
    for n in 0..400_u16 {
        let id = ExecutionId::from_parts(START, Route(n), 1 << 32 | u64::from(n));
        let create = Create::new(id, Kind::parse("other").unwrap(), Payload::json("1"));
        stand.engines[0].execute(create).await.unwrap();
        if n % 10 == 0 {
            stand.post(n);
        }
        stand.pass(1).await;
    }
    stand.pass(WITHIN_MS).await;
    let longest = stand.longest();
    assert!((1..=WITHIN_MS).contains(&longest), "a row has waited {longest} ms");
    drop(listens);
}

#[tokio::test]
async fn several_servers_take_rows_in_time() {
    let mut stand = Stand::new(3, &[]).await;
    for route in 0..60 {
        stand.post(route);
        stand.pass(7).await;
    }
    stand.pass(WITHIN_MS).await;
    let longest = stand.longest();
    assert!((1..=WITHIN_MS).contains(&longest), "a row has waited {longest} ms");
}

/// Three servers say that they are alive and do nothing. What is posted where they come first is taken by the next,
/// later by a moment for each of them; what is posted elsewhere is taken as ever.
#[tokio::test]
async fn rows_of_a_silent_server_are_taken_by_the_next() {
    let silent = ["one", "two", "three"];
    let mut stand = Stand::new(1, &silent).await;
    for route in 0..PARTITIONS {
        stand.post(route);
    }
    stand.pass(1_000).await;
    let server = stand.engines[0].server().to_owned();
    let alive: Vec<String> = silent.iter().map(|it| (*it).to_owned()).chain([server.clone()]).collect();
    let ranks = ranks(&server, &alive, PARTITIONS);
    for (id, waited) in stand.waited() {
        let rank = Ms::from(ranks[id.route().partition(PARTITIONS).index()]);
        // Whoever comes later looks at least once more.
        let allowed = rank * 50..=if rank == 0 { WITHIN_MS } else { 2 * WITHIN_MS };
        assert!(allowed.contains(&waited), "{id}, where {rank} come before, has waited {waited} ms");
    }
    assert!(ranks.iter().any(|rank| *rank > 0), "{ranks:?}");
}
