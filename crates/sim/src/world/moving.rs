//! The store is copied into another one, and everything goes on there.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ff_core::event::Event;
use ff_core::execution::{Execution, State};
use ff_core::{ExecutionId, FlowId, Ms};
use ff_engine::transfer::transfer;
use ff_store::memory::{MemoryState, Partition};
use ff_store::{ManualClock, MemoryStore};

use super::queue::Happening;
use super::{World, trace};
use crate::check::mirror::Mirror;
use crate::check::subscriber::Subscriber;
use crate::check::{Check, ensure};
use crate::fault::Fault;
use crate::profile::PARTITIONS;

impl World {
    /// All servers are stopped, the store is copied into one with so many partitions, that one into one with as many as
    /// before, and the servers start on it.
    pub(super) fn move_store(&mut self, partitions: u16) -> Check {
        if self.store.seq == 0 {
            // There is nothing to copy yet.
            return Ok(());
        }
        trace!(self, "the store is copied by way of one with {partitions} partitions");
        self.tally.count(Fault::StoreMoved);
        (0..self.servers.len()).for_each(|server| self.server_dies(server));
        // What was on its way to the old store never reaches the new one.
        self.queue.retain(|what| !matches!(what, Happening::StoreHears { .. } | Happening::LateCommit(_)));
        self.store.check_all()?;
        let clock = Arc::new(ManualClock::at(self.now + self.store.ahead_ms));
        let old = MemoryStore::from_state(self.store.state.clone(), clock.clone());
        let between = MemoryStore::with_clock(partitions, clock.clone());
        let new = MemoryStore::with_clock(PARTITIONS, clock);
        for (from, to) in [(&old, &between), (&between, &new)] {
            let seed = self.rng.draw();
            let moved = at_once(transfer(from, to, "another", seed, &mut |_| {}))?;
            moved.map_err(|error| format!("the store cannot be copied: {error}"))?;
        }
        let state = new.inspect(MemoryState::clone);
        check_records(&self.store.state, &state)?;
        check_events(&self.store.state, &state)?;
        self.store.moved(state);
        self.store.check_all()
    }
}

/// Nothing of it waits for anything.
fn at_once<T>(future: impl Future<Output = T>) -> Result<T, String> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Err("copying a store in memory waits for something".to_owned()),
    }
}

/// Everything that is kept is kept as it was, wherever it is now.
fn check_records(old: &MemoryState, new: &MemoryState) -> Check {
    type Told = Vec<String>;
    type Table = fn(&Partition) -> Told;
    fn told<T: Debug>(rows: impl Iterator<Item = T>) -> Told {
        rows.map(|row| format!("{row:?}")).collect()
    }
    let unplaced = |it: &Partition| told(it.executions().map(|it| without_place(it)));
    let tables: [(&str, Table); 11] = [
        ("executions", unplaced),
        ("flows", |it| told(it.flows())),
        ("edges", |it| told(it.edges())),
        ("payloads", |it| told(it.payloads())),
        ("attempts", |it| told(it.attempts())),
        ("idempotency keys", |it| told(it.dedup())),
        ("signals", |it| told(it.signals())),
        ("steps", |it| told(it.steps())),
        ("streams", |it| told(it.streams())),
        ("frames", |it| told(it.frames())),
        ("waitpoints", |it| told(it.waitpoints())),
    ];
    for (what, table) in tables {
        let all = |state: &MemoryState| {
            let mut all: Told = state.partitions().flat_map(|(_, it)| table(it)).collect();
            all.sort();
            all
        };
        let (was, is) = (all(old), all(new));
        let other = was.iter().zip(&is).find(|(was, is)| was != is);
        let (before, after) = (was.len(), is.len());
        ensure!(was == is, "{before} {what} became {after}, and of the first that differ one is {other:?}");
    }
    Ok(())
}

/// Its place in the queue has another number.
fn without_place(execution: &Execution) -> Execution {
    let mut execution = execution.clone();
    if let State::Ready { number, .. } = &mut execution.live.state {
        *number = 0;
    }
    execution
}

/// What happened to each execution and flow, and in which order, is told as it was.
fn check_events(old: &MemoryState, new: &MemoryState) -> Check {
    let (before, after) = (stories(old), stories(new));
    for (about, was) in &before {
        let is = after.get(about);
        ensure!(is == Some(was), "events of {about:?} were {was:?}, are {is:?}");
    }
    ensure!(before.len() == after.len(), "there are events of somebody who was not there");
    for (partition, stored) in new.partitions() {
        let mut last: Option<(u64, Ms)> = None;
        for event in stored.events() {
            let fits = last.is_none_or(|(number, at)| event.number == number + 1 && event.at >= at);
            ensure!(fits, "event {} of {partition} at {} follows {last:?}", event.number, event.at);
            last = Some((event.number, event.at));
        }
    }
    Ok(())
}

type Story = Vec<(Ms, String)>;

fn stories(state: &MemoryState) -> BTreeMap<(Option<ExecutionId>, Option<FlowId>), Story> {
    let mut stories = BTreeMap::<_, Story>::new();
    for event in state.partitions().flat_map(|(_, stored)| stored.events()) {
        let Event { at, execution, flow, fact, .. } = event;
        stories.entry((*execution, *flow)).or_default().push((*at, format!("{fact:?}")));
    }
    // What is about neither has no order between partitions.
    stories.entry((None, None)).or_default().sort();
    stories
}

impl super::store::SimStore {
    /// Everything that was seen by partition or by number is seen anew.
    fn moved(&mut self, state: MemoryState) {
        self.seq += 1;
        self.mirrors = state.partitions().map(|(_, stored)| Mirror::of(stored)).collect();
        for ((partition, _), mirror) in state.partitions().zip(&self.mirrors) {
            self.history.moved(self.seq, partition, mirror);
        }
        self.inbox.moved(&state);
        self.subscriber = Subscriber::of(&state);
        self.state = state;
    }
}
