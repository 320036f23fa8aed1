//! What the parent has heard, and whether the store agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use ff_engine::doctor;
use ff_engine::subscription::Item;
use flowfabric::{EventFilter, ExecutionId, Fabric, Fact, Payload, PublicState, Start};

use crate::fleet::Role;

/// An acknowledged completion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Completion {
    epoch: u64,
    mark: String,
}

#[derive(Debug, Default)]
pub struct Truth {
    /// Every key that somebody was asked to submit, with who was asked.
    asked: Vec<(Role, String)>,
    submitted: BTreeMap<String, ExecutionId>,
    completed: BTreeMap<ExecutionId, Completion>,
    /// Completions that came too late, by the epoch they spoke for.
    refused: Vec<(ExecutionId, u64)>,
    /// How many of them came while another held the lease: only the epoch tells the two apart.
    overtaken: usize,
    /// How often somebody was told to try again.
    troubles: usize,
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} asked, {} submitted, {} completions told, {} refused ({} overtaken), {} troubles",
            self.asked.len(),
            self.submitted.len(),
            self.completed.len(),
            self.refused.len(),
            self.overtaken,
            self.troubles
        )
    }
}

impl Truth {
    // ---- while it goes on ----------------------------------------------------------------------------

    pub fn ask(&mut self, role: Role) -> String {
        let key = format!("{role:?}-{}", self.asked.len());
        self.asked.push((role, key.clone()));
        key
    }

    pub fn completions(&self) -> usize {
        self.completed.len()
    }

    pub fn overtaken(&self) -> usize {
        self.overtaken
    }

    pub fn pending(&self) -> Vec<String> {
        self.pending_keys().map(|(_, key)| key.clone()).collect()
    }

    pub fn pending_of(&self, role: Role) -> Vec<String> {
        self.pending_keys().filter(|(asked, _)| *asked == role).map(|(_, key)| key.clone()).collect()
    }

    pub fn first_pending(&self, role: Role) -> Option<String> {
        self.pending_keys().find(|(asked, _)| *asked == role).map(|(_, key)| key.clone())
    }

    fn pending_keys(&self) -> impl Iterator<Item = &(Role, String)> {
        self.asked.iter().filter(|(_, key)| !self.submitted.contains_key(key))
    }

    pub fn submitted(&mut self, key: &str, id: &str) {
        // A line that a kill has cut off acknowledges nothing.
        let Ok(id) = id.trim().parse::<ExecutionId>() else { return };
        let first = *self.submitted.entry(key.to_owned()).or_insert(id);
        assert_eq!(first, id, "one key, two executions: {key}");
    }

    /// Takes in a line of a child; lines without the mark are the test runner's.
    pub fn learn(&mut self, line: &str) {
        let words: Vec<&str> =
            line.split_once("@ ").map(|(_, said)| said.split(' ').collect()).unwrap_or_default();
        match words.as_slice() {
            ["submitted", key, id] => self.submitted(key, id),
            ["completed", id, epoch, mark] => {
                let (Ok(id), Ok(epoch)) = (id.parse(), epoch.parse()) else { return };
                let completion = Completion { epoch, mark: (*mark).to_owned() };
                let first = self.completed.entry(id).or_insert_with(|| completion.clone());
                assert_eq!(*first, completion, "{id} was completed twice");
            }
            ["refused", id, epoch, _, code, state] => {
                assert_eq!(*code, "lease_lost", "{line}");
                self.refused.push((id.parse().unwrap(), epoch.parse().unwrap()));
                self.overtaken += usize::from(*state == "active");
            }
            ["trouble", code] => {
                assert!(["unavailable", "outcome_unknown", "busy"].contains(code), "{line}");
                self.troubles += 1;
            }
            ["odd", ..] => panic!("{line}"),
            _ => {}
        }
    }

    // ---- at the end ----------------------------------------------------------------------------------

    /// Waits until everything that was acknowledged has ended.
    pub async fn wait_for_all(&self, fabric: &Fabric, patience: Duration) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + patience;
        for (key, id) in &self.submitted {
            let ended = tokio::time::timeout_at(deadline, fabric.wait(*id)).await;
            if ended.is_err() {
                let why = fabric.explain(*id).await;
                return Err(format!("{key} ({id}) has not ended: {why:?}"));
            }
            ended.unwrap().map_err(|error| format!("{key} ({id}), which was acknowledged: {error}"))?;
        }
        Ok(())
    }

    pub async fn check(&self, fabric: &Fabric) {
        let log = Log::read(fabric).await;
        let acknowledged: BTreeSet<ExecutionId> = self.submitted.values().copied().collect();
        assert_eq!(acknowledged.len(), self.submitted.len(), "two keys, one execution");
        assert_eq!(log.created, acknowledged, "what was created is what was acknowledged");
        for (key, id) in &self.submitted {
            assert_eq!(log.endings.get(id), Some(&1), "endings of {key} ({id})");
            let ended = fabric.wait(*id).await.unwrap();
            if key.starts_with("Submitter") {
                assert_eq!(ended.execution.public_state(), PublicState::Completed, "{key} ({id})");
            }
            self.check_result(key, *id, ended.result.as_ref(), &log);
        }
        for id in self.completed.keys() {
            assert!(acknowledged.contains(id), "{id} was completed and never submitted");
        }
        assert!(self.overtaken > 0, "nobody came back to another's lease: this was no attack");
        for (id, epoch) in &self.refused {
            let standing = self.completed.get(id).map(|completion| completion.epoch);
            assert_ne!(standing, Some(*epoch), "a completion of {id} was accepted and refused");
        }
        let found = doctor::examine(&**fabric.engine().unwrap().store()).await.unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
    }

    /// A result is the program's, which is the input, or a teller's, which names its lease.
    fn check_result(&self, key: &str, id: ExecutionId, result: Option<&Payload>, log: &Log) {
        let result: Option<String> = result.map(|it| serde_json::from_slice(&it.bytes).unwrap());
        if let Some(told) = self.completed.get(&id) {
            assert_eq!(
                result.as_ref(),
                Some(&told.mark),
                "the completion of {key} ({id}) that was acknowledged"
            );
        }
        let mark = result.as_deref().filter(|result| *result != key);
        if let Some((_, epoch)) = mark.and_then(|mark| mark.split_once('-')) {
            let newest = log.epochs.get(&id).map(ToString::to_string);
            assert_eq!(Some(epoch), newest.as_deref(), "{key} ({id}) was completed under an old lease");
        }
    }
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
    /// Everything that was there when it is called. The fabric goes on meanwhile, and what it adds to one partition
    /// must not be taken for what is missing in another: each is read up to its own end.
    async fn read(fabric: &Fabric) -> Log {
        let (_, statuses) = fabric.engine().unwrap().store().status().await.unwrap();
        let mut events =
            fabric.engine().unwrap().subscribe(EventFilter::default(), Start::Beginning).await.unwrap();
        let mut seen = vec![0; statuses.len()];
        let mut log = Log::default();
        while statuses.iter().any(|it| seen[it.partition.index()] + 1 < it.next_event) {
            let Item::Event { event, partition, .. } = events.next().await else { continue };
            let before = std::mem::replace(&mut seen[partition.index()], event.number);
            assert_eq!(event.number, before + 1, "the log of partition {partition} has a gap");
            let Some(id) = event.execution else { continue };
            match event.fact {
                Fact::Created { .. } => assert!(log.created.insert(id), "{id} was created twice"),
                Fact::LeaseAcquired { holder } | Fact::LeaseReclaimed { holder } => {
                    let before = log.epochs.insert(id, holder.epoch).unwrap_or(0);
                    assert!(
                        holder.epoch > before,
                        "a lease of {id} has epoch {} after {before}",
                        holder.epoch
                    );
                }
                fact if fact.ends() => *log.endings.entry(id).or_default() += 1,
                _ => {}
            }
        }
        log
    }
}
