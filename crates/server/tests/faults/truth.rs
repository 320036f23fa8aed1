//! What the parent has heard, and whether the store agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use ff_core::event::Fact;
use ff_core::{ExecutionId, PublicState};
use ff_engine::subscription::Item;
use ff_engine::{Engine, EventFilter, Start, doctor};

/// An acknowledged completion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Completion {
    epoch: u64,
    mark: String,
}

#[derive(Debug, Default)]
pub struct Truth {
    submitted: BTreeSet<ExecutionId>,
    completed: BTreeMap<ExecutionId, Completion>,
    /// Completions that came too late, by the epoch they spoke for.
    refused: Vec<(ExecutionId, u64)>,
    /// How many of them came while another held the lease: only the epoch tells the two apart.
    overtaken: usize,
    /// How often there was no whole answer.
    troubles: usize,
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (submitted, completed) = (self.submitted.len(), self.completed.len());
        let (refused, overtaken) = (self.refused.len(), self.overtaken);
        write!(
            f,
            "{submitted} submitted, {completed} completed, {refused} refused ({overtaken} overtaken), {} troubles",
            self.troubles
        )
    }
}

impl Truth {
    pub fn submitted(&mut self, id: ExecutionId) {
        assert!(self.submitted.insert(id), "{id} was submitted twice");
    }

    pub fn all(&self) -> &BTreeSet<ExecutionId> {
        &self.submitted
    }

    pub fn completions(&self) -> usize {
        self.completed.len()
    }

    pub fn overtaken(&self) -> usize {
        self.overtaken
    }

    /// Whether faults have shown: answers lost, and leases that somebody came back to when another had them.
    pub fn has_seen_faults(&self) -> bool {
        self.troubles > 0 && self.overtaken > 0
    }

    /// Takes in a line of a worker; lines without the mark are the test runner's.
    pub fn learn(&mut self, line: &str) {
        let words: Vec<&str> =
            line.split_once("@ ").map(|(_, said)| said.split(' ').collect()).unwrap_or_default();
        match words.as_slice() {
            ["completed", id, epoch, mark] => {
                // A line that a kill has cut off acknowledges nothing.
                let (Ok(id), Ok(epoch)) = (id.parse(), epoch.parse()) else { return };
                let completion = Completion { epoch, mark: (*mark).to_owned() };
                let first = self.completed.entry(id).or_insert_with(|| completion.clone());
                assert_eq!(*first, completion, "{id} was completed twice");
            }
            ["refused", id, epoch, _, code, state] => {
                // What was not confirmed in time was given back, which is an ending, too.
                assert!(["lease_lost", "already_ended"].contains(code), "{line}");
                // A line that a kill has cut off in its last word says the rest all the same.
                self.refused.push((id.parse().unwrap(), epoch.parse().unwrap()));
                self.overtaken += usize::from(*state == "active");
            }
            ["trouble", what] => {
                assert_ne!(*what, "internal", "{line}");
                self.troubles += 1;
            }
            ["odd", ..] => panic!("{line}"),
            _ => {}
        }
    }

    pub async fn check(&self, engine: &Engine) {
        let log = Log::read(engine).await;
        assert_eq!(log.created, self.submitted, "what was created is what was submitted");
        for id in &self.submitted {
            assert_eq!(log.endings.get(id), Some(&1), "endings of {id}");
            let ended = engine.wait(*id).await.unwrap();
            assert_eq!(ended.execution.public_state(), PublicState::Completed, "{id}");
            let result: String = serde_json::from_slice(&ended.result.unwrap().bytes).unwrap();
            if let Some(told) = self.completed.get(id) {
                assert_eq!(result, told.mark, "the completion of {id} that was acknowledged");
            }
            let newest = log.epochs[id].to_string();
            assert_eq!(result.split_once('-').unwrap().1, newest, "{id} was completed under an old lease");
        }
        for (id, epoch) in &self.refused {
            let standing = self.completed.get(id).map(|completion| completion.epoch);
            assert_ne!(standing, Some(*epoch), "a completion of {id} was accepted and refused");
        }
        let found = doctor::examine(&**engine.store()).await.unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
    }
}

/// Waits until all of them have ended; tells why the first that has not stands where it does.
pub async fn wait_for_all(
    engine: &Engine,
    all: &BTreeSet<ExecutionId>,
    patience: Duration,
) -> Result<(), String> {
    let deadline = tokio::time::Instant::now() + patience;
    for id in all {
        if tokio::time::timeout_at(deadline, engine.wait(*id)).await.is_err() {
            return Err(format!("{id} has not ended: {:?}", engine.explain(*id).await));
        }
    }
    Ok(())
}

/// What the events say.
#[derive(Default)]
struct Log {
    created: BTreeSet<ExecutionId>,
    endings: BTreeMap<ExecutionId, usize>,
    /// The newest lease of each.
    epochs: BTreeMap<ExecutionId, u64>,
}

impl Log {
    /// Everything that was there when it is called, partition by partition.
    async fn read(engine: &Engine) -> Log {
        let (_, statuses) = engine.store().status().await.unwrap();
        let mut events = engine.subscribe(EventFilter::default(), Start::Beginning).await.unwrap();
        let mut seen = vec![0; statuses.len()];
        let mut log = Log::default();
        while statuses.iter().any(|it| seen[it.partition.index()] + 1 < it.next_event) {
            let Item::Event { event, partition, .. } = events.next().await else { continue };
            seen[partition.index()] = event.number;
            let Some(id) = event.execution else { continue };
            match event.fact {
                Fact::Created { .. } => assert!(log.created.insert(id), "{id} was created twice"),
                Fact::LeaseAcquired { holder } | Fact::LeaseReclaimed { holder } => {
                    let before = log.epochs.insert(id, holder.epoch).unwrap_or(0);
                    assert!(holder.epoch > before, "a lease of {id} has an old epoch");
                }
                fact if fact.ends() => *log.endings.entry(id).or_default() += 1,
                _ => {}
            }
        }
        log
    }
}
