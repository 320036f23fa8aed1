//! The doctor: reads a whole store and checks that everything in it agrees.
//!
//! Lists, timers and counters are derived from executions; the doctor derives them again and compares. Sums
//! of hashes stand for the sets, so that a store of any size is checked in little memory.

mod flows;
mod mail;

use std::hash::{Hash, Hasher};

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::class::Class;
use ff_core::inbox::DeadLetter;
use ff_core::key::Ask;
use ff_core::query::{CountKey, Filter, Order, PageAsk};
use ff_core::ready::Place;
use ff_core::workspace::{Answer, Opening};
use ff_core::{Execution, LaneName, Ms, PartitionId};
use ff_store::{Store, StoreError};
use rustc_hash::{FxHashMap, FxHasher};

const PAGE: usize = 2_000;
/// How many dead letters are read at once.
const LETTERS: usize = 20;

/// A set, by its size and the sum of its members' hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    hash: u64,
}

impl Sum {
    fn add(&mut self, member: impl Hash) {
        let mut hasher = FxHasher::default();
        member.hash(&mut hasher);
        self.count += 1;
        self.hash = self.hash.wrapping_add(hasher.finish());
    }
}

/// What a store holds, seen from one side.
#[derive(Debug, Default)]
struct Side {
    ready: Sum,
    timers: Sum,
    leases: Sum,
    ready_counts: FxHashMap<(LaneName, Class), u64>,
}

/// What the doctor found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Findings {
    pub executions: u64,
    pub flows: u64,
    /// Submissions that could not be taken in. They are for people to look at and nothing is wrong with the store.
    pub dead_letters: u64,
    pub problems: Vec<String>,
}

/// Checks a store that nobody is writing to.
pub async fn examine(store: &dyn Store) -> Result<Findings, StoreError> {
    let partitions = store.info().partitions;
    let mut findings = Findings::default();
    let mut derived: Vec<Side> = (0..partitions).map(|_| Side::default()).collect();
    let mut counts = FxHashMap::<CountKey, u64>::default();
    let mut members = 0;
    let mut waitpoints = Sum::default();
    let mut ask = PageAsk {
        filter: Filter::default(),
        order: Order::OldestFirst,
        after: None,
        limit: PAGE,
        scan_max: PAGE,
    };
    loop {
        let page = store.executions(ask.clone()).await?;
        for execution in &page.executions {
            findings.executions += 1;
            members += u64::from(execution.flow().is_some());
            *counts.entry(CountKey::of(execution)).or_default() += 1;
            let side = &mut derived[execution.id.route().partition(partitions).index()];
            look_at(execution, side, &mut findings.problems);
        }
        let found = (&mut derived, &mut findings.problems);
        mail::look_at(store, &page.executions, found.0, &mut waitpoints, found.1).await?;
        match page.next {
            Some(next) => ask.after = Some(next),
            None => break,
        }
    }
    let listed = mail::listed(store).await?;
    if listed != waitpoints {
        let (stored, derived) = (listed.count, waitpoints.count);
        let problem = format!("the store lists {stored} open waitpoints, executions call for {derived}");
        findings.problems.push(problem);
    }
    findings.problems.extend(mail::of_nobody(store).await?);
    let stored: FxHashMap<CountKey, u64> = store.counts().await?.into_iter().collect();
    if stored != counts {
        findings.problems.push("counts by namespace, lane, kind and state differ from a recount".to_owned());
    }
    let flows = flows::examine(store).await?;
    findings.flows = flows.count;
    findings.problems.extend(flows.problems);
    if flows.members != members {
        let problem = format!("{members} executions are members of flows, flows list {}", flows.members);
        findings.problems.push(problem);
    }
    for (partition, due, flow) in flows.walks {
        derived[partition.index()].timers.add(AgendaKey { due, subject: Subject::Members(flow) });
    }
    for (n, derived) in derived.into_iter().enumerate() {
        let partition = PartitionId(n as u16);
        let stored = read(store, partition).await?;
        let mut compare = |what: &str, stored: Sum, derived: Sum| {
            if stored != derived {
                findings.problems.push(format!(
                    "partition {partition}: the store lists {} {what}, its records call for {}",
                    stored.count, derived.count
                ));
            }
        };
        compare("ready entries", stored.ready, derived.ready);
        compare("timers", stored.timers, derived.timers);
        compare("leases", stored.leases, derived.leases);
        if stored.ready_counts != derived.ready_counts {
            findings.problems.push(format!("partition {partition}: ready counts differ from a recount"));
        }
        findings.dead_letters += count_letters(store, partition).await?;
    }
    Ok(findings)
}

/// Derives what one execution calls for, and checks what must hold of it alone.
fn look_at(execution: &Execution, side: &mut Side, problems: &mut Vec<String>) {
    if let Some(entry) = execution.ready_entry() {
        side.ready.add((&entry.lane, &entry.class, entry.place(), entry.execution));
        *side.ready_counts.entry((entry.lane, entry.class)).or_default() += 1;
    }
    if let Some(due) = execution.live.timer {
        side.timers.add(AgendaKey { due, subject: Subject::Timer(execution.id) });
    }
    if let Some(passing) = execution.node().and_then(|node| node.passing) {
        side.timers.add(AgendaKey { due: passing.since, subject: Subject::Cascade(execution.id) });
    }
    let orphans = execution.mailbox().is_some_and(|mailbox| !mailbox.children.is_empty());
    if let Some(end) = execution.end().filter(|_| orphans) {
        side.timers.add(AgendaKey { due: end.at, subject: Subject::Children(execution.id) });
    }
    if let Some(lease) = execution.lease() {
        side.leases.add((lease.instance, execution.id));
    }
    let guard = execution.earliest_guard().map(|(due, _)| due);
    let id = execution.id;
    match (execution.live.timer, guard) {
        (None, Some(due)) => {
            problems.push(format!("execution {id} has no timer although it must act at {due}"))
        }
        (Some(timer), None) => {
            problems.push(format!("execution {id} has a timer at {timer} without a reason"))
        }
        (Some(timer), Some(due)) if timer > due => {
            problems.push(format!("execution {id} has its timer at {timer}, after {due}"));
        }
        _ => {}
    }
    let (spent, max) = (execution.live.series.spent, execution.spec.policy.max_attempts);
    if spent > max {
        problems.push(format!("execution {id} has spent {spent} attempts of {max}"));
    }
}

/// What the lists of a partition say.
async fn read(store: &dyn Store, partition: PartitionId) -> Result<Side, StoreError> {
    let mut side = Side::default();
    let opening = opening(store, partition).await?;
    for (instance, execution) in &opening.leases {
        side.leases.add((*instance, *execution));
    }
    for (lane, class, count) in opening.ready_counts {
        read_ready(store, partition, &lane, &class, &mut side.ready).await?;
        side.ready_counts.insert((lane, class), count);
    }
    let mut after = Ms::MIN;
    loop {
        let loaded = store.load(partition, vec![Ask::Agenda { after, limit: PAGE }]).await?;
        let Some(Answer::Agenda { entries, reached }) = loaded.answers.into_iter().next() else { break };
        let of_records = |subject| {
            use Subject::{Cascade, Children, Frames, Members, Timer};
            matches!(subject, Timer(_) | Cascade(_) | Members(_) | Children(_) | Frames(_))
        };
        let timers = entries.iter().filter(|entry| of_records(entry.key.subject));
        timers.for_each(|entry| side.timers.add(entry.key));
        if reached == Ms::MAX {
            break;
        }
        after = reached;
    }
    Ok(side)
}

/// How many dead letters a partition has. Each may have as large an input as a submission.
async fn count_letters(store: &dyn Store, partition: PartitionId) -> Result<u64, StoreError> {
    let (mut count, mut after) = (0, 0);
    loop {
        let loaded = store.load(partition, vec![Ask::DeadLetters { after, limit: LETTERS }]).await?;
        let Some(Answer::DeadLetters { letters, .. }) = loaded.answers.into_iter().next() else {
            return Ok(count);
        };
        count += letters.len() as u64;
        match letters.last() {
            Some(last) => after = last.posted.number,
            None => return Ok(count),
        }
    }
}

/// The dead letter with this number, and the partition it is in.
pub async fn dead_letter(
    store: &dyn Store,
    number: u64,
) -> Result<Option<(PartitionId, DeadLetter)>, StoreError> {
    let Some(after) = number.checked_sub(1) else { return Ok(None) };
    for partition in (0..store.info().partitions).map(PartitionId) {
        let loaded = store.load(partition, vec![Ask::DeadLetters { after, limit: 1 }]).await?;
        if let Some(Answer::DeadLetters { mut letters, .. }) = loaded.answers.into_iter().next()
            && let Some(letter) = letters.pop().filter(|letter| letter.posted.number == number)
        {
            return Ok(Some((partition, letter)));
        }
    }
    Ok(None)
}

async fn opening(store: &dyn Store, partition: PartitionId) -> Result<Opening, StoreError> {
    let loaded = store.load(partition, vec![Ask::Opening]).await?;
    Ok(match loaded.answers.into_iter().next() {
        Some(Answer::Opening(opening)) => *opening,
        _ => Opening::default(),
    })
}

async fn read_ready(
    store: &dyn Store,
    partition: PartitionId,
    lane: &LaneName,
    class: &Class,
    sum: &mut Sum,
) -> Result<(), StoreError> {
    let mut after = Place { rank: i64::MIN, number: 0 };
    loop {
        let ask = Ask::Ready { lane: lane.clone(), class: class.clone(), after, limit: PAGE };
        let loaded = store.load(partition, vec![ask]).await?;
        let Some(Answer::Ready { entries, .. }) = loaded.answers.into_iter().next() else { return Ok(()) };
        for (place, execution) in &entries {
            sum.add((lane, class, *place, *execution));
        }
        match entries.last() {
            Some((place, _)) if entries.len() >= PAGE => after = *place,
            _ => return Ok(()),
        }
    }
}
