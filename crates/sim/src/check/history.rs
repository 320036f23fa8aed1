//! What has ever been committed, told from the events alone: the truth that answers are compared with.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::change::Changes;
use ff_core::event::{Event, Fact};
use ff_core::execution::{Fence, How};
use ff_core::fold::{Folded, FoldedFlow};
use ff_core::lane::LaneMode;
use ff_core::registry::{Record, RecordKey};
use ff_core::worker::WorkerMode;
use ff_core::{ExecutionId, FlowId, InstanceId, LaneName, Ms, PartitionId};

use super::Check;
use super::mirror::Mirror;

/// The number of a commit, counted over all partitions.
pub type Seq = u64;

/// What something was from each commit on.
type Timeline<T> = Vec<(Seq, T)>;

/// Everything one execution id has been.
#[derive(Debug, Default)]
pub struct Life {
    /// What it was from each event on; `None`: there was no such execution.
    states: Timeline<Option<Folded>>,
    pub folded: Option<Folded>,
    /// Ending events since it was created.
    pub endings: u32,
    /// How often it was told, since then or since it was let go of, that its dependencies are satisfied.
    pub admitted: u32,
    pub created: Vec<Seq>,
}

/// Everything one flow id has been.
#[derive(Debug, Default)]
pub struct FlowLife {
    states: Timeline<Option<FoldedFlow>>,
    pub folded: Option<FoldedFlow>,
    pub created: Vec<Seq>,
}

#[derive(Debug)]
pub struct LeaseLife {
    pub instance: InstanceId,
    pub started: Seq,
    pub ended: Option<Seq>,
    pub how: Option<How>,
    pub expires_at: Ms,
}

impl LeaseLife {
    /// Whether it stood at some moment since.
    pub fn stood_since(&self, since: Seq) -> bool {
        self.ended.is_none_or(|ended| ended > since)
    }
}

#[derive(Debug, Default)]
pub struct History {
    pub lives: BTreeMap<ExecutionId, Life>,
    pub leases: BTreeMap<(ExecutionId, u32, u64), LeaseLife>,
    pub flows: BTreeMap<FlowId, FlowLife>,
    /// Those of executions whose id was used again.
    former: BTreeMap<(ExecutionId, u32, u64), LeaseLife>,
    /// The mode of each revision of a lane, as its home said.
    lane_modes: BTreeMap<(LaneName, u64), LaneMode>,
    lanes: BTreeMap<(PartitionId, LaneName), Timeline<LaneMode>>,
    workers: BTreeMap<(PartitionId, InstanceId), Timeline<Option<WorkerMode>>>,
    registry: BTreeMap<RecordKey, Timeline<Option<Arc<Record>>>>,
    /// What was done to the registry: several changes of one commit leave one record.
    registered: Timeline<Event>,
}

fn lease_key(fence: Fence) -> (ExecutionId, u32, u64) {
    (fence.execution, fence.attempt, fence.epoch)
}

/// Whether one of these values was the valid one at some moment after `since`.
fn any_since<T>(values: &[(Seq, T)], since: Seq, first: &T, fits: impl Fn(&T) -> bool) -> bool {
    let ends = values.iter().map(|(seq, _)| Some(*seq)).chain([None]);
    let all = std::iter::once(first).chain(values.iter().map(|(_, value)| value));
    all.zip(ends).any(|(value, end)| end.is_none_or(|end| end > since) && fits(value))
}

impl History {
    pub fn lease(&self, fence: Fence) -> Option<&LeaseLife> {
        self.leases.get(&lease_key(fence))
    }

    /// The lease with this fence, also of an execution that was removed and made anew under its id.
    pub fn leases_ever(&self, fence: Fence) -> impl Iterator<Item = &LeaseLife> {
        self.lease(fence).into_iter().chain(self.former.get(&lease_key(fence)))
    }

    /// Whether the execution was like that at some moment since; `None` where it did not exist.
    pub fn was(&self, id: ExecutionId, since: Seq, fits: impl Fn(Option<&Folded>) -> bool) -> bool {
        match self.lives.get(&id) {
            Some(life) => any_since(&life.states, since, &None, |it| fits(it.as_ref())),
            None => fits(None),
        }
    }

    /// Whether the flow was like that at some moment since; `None` where it did not exist.
    pub fn flow_was(&self, id: FlowId, since: Seq, fits: impl Fn(Option<&FoldedFlow>) -> bool) -> bool {
        match self.flows.get(&id) {
            Some(life) => any_since(&life.states, since, &None, |it| fits(it.as_ref())),
            None => fits(None),
        }
    }

    pub fn lane_was(&self, partition: PartitionId, lane: &LaneName, since: Seq, mode: LaneMode) -> bool {
        let modes = self.lanes.get(&(partition, lane.clone()));
        any_since(modes.map_or(&[], Vec::as_slice), since, &LaneMode::Open, |it| *it == mode)
    }

    pub fn worker_was(
        &self,
        partition: PartitionId,
        instance: InstanceId,
        since: Seq,
        mode: Option<WorkerMode>,
    ) -> bool {
        let modes = self.workers.get(&(partition, instance));
        any_since(modes.map_or(&[], Vec::as_slice), since, &None, |it| *it == mode)
    }

    /// Whether the record was like that at some moment since; `None` where it did not exist.
    pub fn record_was(&self, key: &RecordKey, since: Seq, fits: impl Fn(Option<&Record>) -> bool) -> bool {
        let records = self.registry.get(key);
        any_since(records.map_or(&[], Vec::as_slice), since, &None, |it| fits(it.as_deref()))
    }

    /// Whether the record was written by a commit since.
    pub fn record_changed(&self, key: &RecordKey, since: Seq) -> bool {
        self.registry.get(key).is_some_and(|records| records.iter().any(|(seq, _)| *seq > since))
    }

    /// Whether this was done to the registry by a commit since.
    pub fn registered(&self, since: Seq, fits: impl Fn(&Event) -> bool) -> bool {
        self.registered.iter().any(|(seq, event)| *seq > since && fits(event))
    }

    /// Takes in a commit; the mirror is as it was before it.
    pub fn note(&mut self, seq: Seq, partition: PartitionId, changes: &Changes, before: &Mirror) -> Check {
        for event in &changes.events {
            if let (Fact::LaneChanged { mode, revision, .. }, Some(lane)) = (&event.fact, &event.lane) {
                self.lane_modes.insert((lane.clone(), *revision), *mode);
            }
            let word = event.fact.word();
            if ["token_", "webhook_", "bulk_"].iter().any(|start| word.starts_with(start)) {
                self.registered.push((seq, event.clone()));
            }
            self.note_event(seq, event)?;
            if let Fact::LeaseAcquired { holder } | Fact::LeaseReclaimed { holder } = &event.fact {
                check_start(event, holder.instance, changes, before)?;
                event.execution.map_or(Ok(()), |id| super::flow::check_start(id, changes, before))?;
            }
        }
        for (key, record) in &changes.registry {
            self.registry.entry(key.clone()).or_default().push((seq, record.clone()));
        }
        for change in &changes.executions {
            use ff_core::change::ExecutionChange::{Insert, Update};
            let (Insert(it) | Update(it)) = change else { continue };
            if let Some(lease) = it.lease()
                && let Some(life) = self.leases.get_mut(&lease_key(it.fence()))
            {
                life.expires_at = life.expires_at.max(lease.expires_at);
            }
            for ending in &it.live.endings {
                if let Some(life) = self.leases.get_mut(&(it.id, ending.attempt, ending.epoch)) {
                    life.how.get_or_insert(ending.how);
                }
            }
        }
        for (name, lane) in &changes.lanes {
            // One commit may take in several revisions, and decide in between.
            let first = before.lanes.get(name).map_or(0, |lane| lane.revision) + 1;
            let last = lane.as_ref().map_or(0, |lane| lane.revision);
            let modes = self.lanes.entry((partition, name.clone())).or_default();
            let between = (first..last).filter_map(|it| self.lane_modes.get(&(name.clone(), it)));
            modes.extend(between.map(|mode| (seq, *mode)));
            modes.push((seq, lane.as_ref().map_or(LaneMode::Open, |lane| lane.mode)));
        }
        for (id, worker) in &changes.workers {
            let mode = worker.as_ref().map(|worker| worker.mode);
            self.workers.entry((partition, *id)).or_default().push((seq, mode));
        }
        Ok(())
    }

    /// The store was copied: copies of global records may have got news on the way, and webhooks another place in the
    /// log.
    pub fn moved(&mut self, seq: Seq, partition: PartitionId, mirror: &Mirror) {
        for (name, lane) in &mirror.lanes {
            self.lanes.entry((partition, name.clone())).or_default().push((seq, lane.mode));
        }
        for (id, worker) in &mirror.workers {
            self.workers.entry((partition, *id)).or_default().push((seq, Some(worker.mode)));
        }
        for (key, record) in &mirror.registry {
            self.registry.entry(key.clone()).or_default().push((seq, Some(record.clone())));
        }
    }

    fn note_flow(&mut self, seq: Seq, event: &Event, id: FlowId) -> Check {
        let life = self.flows.entry(id).or_default();
        let folded = FoldedFlow::apply(life.folded.clone(), event);
        if let Fact::FlowCreated { .. } = event.fact {
            ensure!(life.folded.is_none(), "flow {id} is created although it exists");
            life.created.push(seq);
        }
        if let Fact::FlowEnded { state } = event.fact {
            let ended = life.folded.as_ref().and_then(|it| it.ended);
            ensure!(ended.is_none(), "flow {id} ends as {state} although it has ended as {ended:?}");
        }
        if life.folded != folded {
            life.states.push((seq, folded.clone()));
            life.folded = folded;
        }
        Ok(())
    }

    fn note_event(&mut self, seq: Seq, event: &Event) -> Check {
        event.flow.map_or(Ok(()), |flow| self.note_flow(seq, event, flow))?;
        let Some(id) = event.execution else { return Ok(()) };
        let life = self.lives.entry(id).or_default();
        match &event.fact {
            Fact::Created { .. } => {
                ensure!(life.folded.is_none(), "{id} is created although it exists");
                life.created.push(seq);
                life.endings = 0;
                life.admitted = 0;
                // A new execution under a removed id has epochs of its own. The ends of the old one may still be
                // answered: its removal and the new creation can be in the commit of its end.
                let old = self.leases.extract_if(.., |key, _| key.0 == id);
                self.former.extend(old);
            }
            fact => ensure!(life.folded.is_some(), "{} of {id}, which does not exist", fact.word()),
        }
        if event.fact.ends() {
            let ended = life.folded.as_ref().is_some_and(|it| it.state.is_terminal());
            ensure!(!ended, "{id} ends by {} although it has ended", event.fact.word());
            life.endings += 1;
        }
        match event.fact {
            Fact::Admitted { .. } => life.admitted += 1,
            Fact::Unheld { .. } => life.admitted = 0,
            _ => {}
        }
        life.folded = Folded::apply(life.folded.take(), event);
        life.states.push((seq, life.folded.clone()));
        match &event.fact {
            Fact::LeaseAcquired { holder } | Fact::LeaseReclaimed { holder } => {
                let (instance, key) = (holder.instance, (id, holder.attempt, holder.epoch));
                let live =
                    self.leases.range((id, 0, 0)..=(id, u32::MAX, u64::MAX)).find(|it| it.1.ended.is_none());
                ensure!(live.is_none(), "{id} gets lease {key:?} while {live:?} stands");
                let newest = self.leases.range((id, 0, 0)..=(id, u32::MAX, u64::MAX)).map(|it| it.0.2).max();
                ensure!(newest.is_none_or(|it| it < holder.epoch), "{id} gets epoch {} again", holder.epoch);
                let life = LeaseLife { instance, started: seq, ended: None, how: None, expires_at: 0 };
                self.leases.insert(key, life);
            }
            Fact::LeaseExpired { holder }
            | Fact::LeaseRevoked { holder, .. }
            | Fact::LeaseReleased { holder, .. }
            | Fact::LeasePaused { holder } => {
                let Some(lease) = self.leases.get_mut(&(id, holder.attempt, holder.epoch)) else {
                    return Err(format!("{id}: a lease ends that never was: {holder:?}"));
                };
                ensure!(lease.ended.is_none(), "{id}: lease {holder:?} ends twice");
                lease.ended = Some(seq);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Nothing starts in a paused lane or for a worker that takes nothing.
fn check_start(event: &Event, instance: InstanceId, changes: &Changes, before: &Mirror) -> Check {
    if let Some(lane) = &event.lane
        && !changes.lanes.iter().any(|(name, _)| name == lane)
    {
        let mode = before.lane_mode(lane);
        ensure!(mode != LaneMode::Paused, "{:?} starts in lane {lane}, which is paused", event.execution);
    }
    if !changes.workers.iter().any(|(id, _)| *id == instance) {
        let mode = before.workers.get(&instance).map(|worker| worker.mode);
        ensure!(
            mode == Some(WorkerMode::Active),
            "{:?} starts on {instance}, which is {mode:?}",
            event.execution
        );
    }
    Ok(())
}
