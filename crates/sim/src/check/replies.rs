//! Every answer a server gives must have been true at some moment between its question and itself.

use std::collections::{BTreeMap, BTreeSet};

use ff_core::event::{Event, Fact};
use ff_core::execution::{Execution, Fence, How};
use ff_core::fold::Folded;
use ff_core::lane::LaneMode;
use ff_core::reply::Renewal;
use ff_core::state::{PublicState, Reason};
use ff_core::worker::WorkerMode;
use ff_core::{Command, ExecutionId, FlowId, InstanceId, PartitionId, Rejection, Reply};
use ff_engine::Failure;
use uuid::Uuid;

use super::Check;
use super::history::{History, LeaseLife, Seq};
use super::mirror::Mirror;
use super::{flow_replies, mail, registry};
use crate::profile::PARTITIONS;
use crate::world::call::What;

/// What has been promised so far.
#[derive(Debug, Default)]
pub struct Oracle {
    claimed: BTreeSet<(ExecutionId, u32, u64)>,
    /// By the id of the execution or flow to be made.
    creates: BTreeMap<Uuid, Creates>,
}

/// The submissions of one id.
#[derive(Debug, Default)]
struct Creates {
    /// Questions not answered yet.
    open: usize,
    /// Answers that said it was created.
    fresh: usize,
    /// A question went down with its server, or its outcome was called unknown.
    uncertain: bool,
    /// Every question was answered with "nothing changed".
    never: bool,
}

/// A question, and when it arrived.
#[derive(Debug)]
pub struct Asked<'a> {
    pub what: &'a What,
    pub since: Seq,
}

impl Oracle {
    pub fn asked(&mut self, what: &What) {
        if let Some(id) = made_by(what) {
            let creates = self.creates.entry(id).or_default();
            creates.open += 1;
            creates.never = false;
        }
    }

    /// The server that was asked is gone.
    pub fn unanswered(&mut self, what: &What) {
        if let Some(id) = made_by(what) {
            let creates = self.creates.entry(id).or_default();
            creates.open -= 1;
            creates.uncertain = true;
        }
    }

    pub fn committed(&self, events: &[Event]) -> Check {
        for event in events {
            let id = match &event.fact {
                Fact::Created { .. } => event.execution.map(|id| id.0),
                Fact::FlowCreated { .. } => event.flow.map(|id| id.0),
                _ => None,
            };
            if let Some(id) = id {
                let never = self.creates.get(&id).is_some_and(|it| it.never);
                ensure!(!never, "{id} is created although its caller was told that nothing changed");
            }
        }
        Ok(())
    }

    pub fn answered(
        &mut self,
        history: &History,
        mirrors: &[Mirror],
        asked: &Asked<'_>,
        result: &Result<Reply, Failure>,
    ) -> Check {
        match result {
            Ok(reply) => self.check_reply(history, mirrors, asked, reply)?,
            Err(Failure::Rejected(rejection)) => check_rejection(history, mirrors, asked, rejection)?,
            Err(Failure::Internal(text)) => {
                ensure!(text.starts_with("the store refused it"), "internal error: {text}");
            }
            Err(_) => {}
        }
        match made_by(asked.what) {
            Some(id) => self.settle_create(history, id, result),
            None => Ok(()),
        }
    }

    fn settle_create(&mut self, history: &History, id: Uuid, result: &Result<Reply, Failure>) -> Check {
        let executions = history.lives.get(&ExecutionId(id)).map(|life| life.created.len());
        let created =
            executions.or(history.flows.get(&FlowId(id)).map(|life| life.created.len())).unwrap_or(0);
        let creates = self.creates.entry(id).or_default();
        creates.open -= 1;
        creates.uncertain |= matches!(result, Err(Failure::OutcomeUnknown));
        creates.fresh += usize::from(
            matches!(result, Ok(Reply::Created { execution, existing: false }) if execution.0 == id)
                || matches!(result, Ok(Reply::Flow { existing: false, .. })),
        );
        ensure!(creates.fresh <= created, "{id} was acknowledged {} times, created {created}", creates.fresh);
        if creates.open == 0 && !creates.uncertain {
            ensure!(
                creates.fresh == created,
                "{id} was created {created} times, acknowledged {}",
                creates.fresh
            );
            creates.never = result.is_err();
        }
        Ok(())
    }

    fn check_reply(
        &mut self,
        history: &History,
        mirrors: &[Mirror],
        asked: &Asked<'_>,
        reply: &Reply,
    ) -> Check {
        let since = asked.since;
        match (asked.what, reply) {
            (What::Poll { poll, max }, Reply::Claimed(list)) => {
                ensure!(list.len() <= *max, "{} claimed where {max} were asked for", list.len());
                for it in list {
                    let fits = poll.lanes.contains(&it.spec.lane) && poll.accepts(&it.spec.class());
                    ensure!(fits, "{} does not fit the poll {poll:?}", it.id);
                    self.check_claimed(history, poll.instance, since, it)?;
                }
                Ok(())
            }
            (What::Poll { .. }, other) => Err(format!("a poll is answered with {other:?}")),
            (What::Command { command, .. }, reply) => check_command(history, mirrors, since, command, reply),
        }
    }

    fn check_claimed(
        &mut self,
        history: &History,
        instance: InstanceId,
        since: Seq,
        it: &Execution,
    ) -> Check {
        let fence = it.fence();
        let Some(lease) = history.lease(fence) else {
            return Err(format!("{fence:?} is handed out but was never committed"));
        };
        ensure!(lease.instance == instance, "{fence:?} is handed to {instance}, not to {}", lease.instance);
        ensure!(lease.started > since, "{fence:?} is handed out but started before it was asked for");
        let first = self.claimed.insert((fence.execution, fence.attempt, fence.epoch));
        ensure!(first || history.lives[&fence.execution].created.len() > 1, "{fence:?} is handed out twice");
        Ok(())
    }
}

fn check_command(
    history: &History,
    mirrors: &[Mirror],
    since: Seq,
    command: &Command,
    reply: &Reply,
) -> Check {
    use Command::*;
    let fits = match (command, reply) {
        (Create(it), Reply::Created { execution, existing: false }) => {
            let created =
                history.lives.get(&it.id).is_some_and(|life| life.created.iter().any(|at| *at > since));
            *execution == it.id && created
        }
        (Create(_), Reply::Created { execution, existing: true }) => {
            history.was(*execution, since, |it| it.is_some())
        }
        (Renew(it), Reply::Renewed(list)) => {
            ensure!(list.len() == it.fences.len(), "{} renewals for {:?}", list.len(), it.fences);
            for (fence, renewal) in it.fences.iter().zip(list) {
                check_renewal(history, since, *fence, renewal)?;
            }
            true
        }
        (Complete(it), Reply::LeaseEnded(how @ How::Completed)) => ended_so(history, it.fence, *how),
        (Fail(it), Reply::LeaseEnded(how @ (How::Failed { .. } | How::Cancelled))) => {
            ended_so(history, it.fence, *how)
        }
        (Delay(it), Reply::LeaseEnded(how @ (How::Delayed { .. } | How::Cancelled))) => {
            ended_so(history, it.fence, *how)
        }
        (Release(it), Reply::LeaseEnded(how @ (How::Released | How::Cancelled))) => {
            ended_so(history, it.fence, *how)
        }
        (Report(it), Reply::Noted { .. }) => {
            history.lease(it.fence).is_some_and(|lease| lease.stood_since(since))
        }
        (Cancel(it), Reply::Cancelled { state, cut_at }) => history.was(it.execution, since, |was| {
            let asked = was.is_some_and(|was| was.reason == Reason::CancelRequested);
            was.is_some_and(|was| was.state == *state) && (asked == cut_at.is_some())
        }),
        (
            Hold(_) | Unhold(_) | SetPriority(_) | Revoke(_) | Replay(_) | Tag(_) | Resume(_),
            Reply::Changed(it),
        ) => {
            let folded = Folded::of(it);
            history.was(it.id, since, |was| was == Some(&folded))
        }
        (Remove(it), Reply::Removed) => history.was(it.execution, since, |was| was.is_none()),
        (RegisterWorker(it), Reply::Worker { .. }) => {
            mirrors.iter().all(|mirror| mirror.workers.contains_key(&it.instance))
        }
        (DrainWorker(it), Reply::Worker { .. }) => everywhere(mirrors, it.instance, WorkerMode::Draining),
        (BuryWorker(it), Reply::Worker { .. }) => everywhere(mirrors, it.instance, WorkerMode::Dead),
        (Heartbeat(_), Reply::Worker { .. }) => true,
        (SetLane(it), Reply::Lane { lane, .. }) => {
            let asked = it.mode.is_none_or(|mode| mode == lane.mode);
            let revision = |mirror: &Mirror| mirror.lanes.get(&lane.name).map_or(0, |copy| copy.revision);
            asked && mirrors.iter().all(|mirror| revision(mirror) >= lane.revision)
        }
        (Expand(it), Reply::LeaseEnded(how @ How::Completed)) => ended_so(history, it.fence, *how),
        _ => flow_replies::fits(history, since, command, reply)
            .or_else(|| mail::fits(history, mirrors, since, command, reply))
            .or_else(|| registry::fits(history, since, command, reply))
            .unwrap_or(false),
    };
    ensure!(fits, "the answer {reply:?} to {command:?} was not true at any moment since it was asked");
    Ok(())
}

fn everywhere(mirrors: &[Mirror], instance: InstanceId, mode: WorkerMode) -> bool {
    mirrors.iter().all(|mirror| mirror.workers.get(&instance).is_none_or(|it| it.mode >= mode))
}

pub(super) fn ended_so(history: &History, fence: Fence, how: How) -> bool {
    // An execution that was removed in the commit of its end leaves no record of how it ended.
    let fits = |it: &LeaseLife| it.ended.is_some() && it.how.is_none_or(|stored| stored == how);
    history.leases_ever(fence).any(fits)
}

fn check_renewal(history: &History, since: Seq, fence: Fence, renewal: &Result<Renewal, Rejection>) -> Check {
    match renewal {
        Ok(renewal) => {
            let Some(lease) = history.lease(fence).filter(|lease| lease.stood_since(since)) else {
                return Err(format!("{fence:?} is renewed but does not stand"));
            };
            let kept = lease.ended.is_some() || lease.expires_at >= renewal.expires_at;
            ensure!(
                kept,
                "{fence:?} is renewed to {} but stored is {}",
                renewal.expires_at,
                lease.expires_at
            );
            Ok(())
        }
        Err(rejection) => check_fence_rejection(history, since, fence, rejection),
    }
}

fn check_fence_rejection(history: &History, since: Seq, fence: Fence, rejection: &Rejection) -> Check {
    let lease = history.lease(fence);
    let fits = match rejection {
        Rejection::LeaseLost { .. } => {
            // Lost, or not there yet when it was asked.
            lease.is_none_or(|lease| lease.ended.is_some() || lease.started > since)
        }
        Rejection::AlreadyEnded { .. } => history.leases_ever(fence).any(|lease| lease.ended.is_some()),
        Rejection::NotFound { .. } => history.was(fence.execution, since, |was| was.is_none()),
        _ => false,
    };
    ensure!(fits, "{rejection:?} for {fence:?}, but the lease is {lease:?} and was asked for at {since}");
    Ok(())
}

fn check_rejection(history: &History, mirrors: &[Mirror], asked: &Asked<'_>, rejection: &Rejection) -> Check {
    let since = asked.since;
    let was = |id: ExecutionId, state: PublicState| {
        history.was(id, since, |was| was.is_some_and(|was| was.state == state))
    };
    let some_partition = |instance: InstanceId, mode: Option<WorkerMode>| {
        (0..PARTITIONS).any(|n| history.worker_was(PartitionId(n), instance, since, mode))
    };
    let (command, partition) = match asked.what {
        What::Poll { poll, .. } => {
            let fits = match rejection {
                Rejection::WorkerUnknown { .. } => some_partition(poll.instance, None),
                Rejection::WorkerDraining { .. } => some_partition(poll.instance, Some(WorkerMode::Draining)),
                Rejection::WorkerDead { .. } => some_partition(poll.instance, Some(WorkerMode::Dead)),
                _ => false,
            };
            ensure!(fits, "{rejection:?} for a poll of {} asked for at {since}", poll.instance);
            return Ok(());
        }
        What::Command { command, partition } => (command, *partition),
    };
    let mirror = &mirrors[partition.index()];
    if let Some(fits) = flow_replies::was_true(history, mirror, partition, since, command, rejection) {
        ensure!(fits, "the rejection {rejection:?} of {command:?} was not true at any moment since {since}");
        return Ok(());
    }
    let about_mail = mail::was_true(history, mirror, since, command, rejection);
    if let Some(fits) = about_mail.or_else(|| registry::was_true(history, since, command, rejection)) {
        ensure!(fits, "the rejection {rejection:?} of {command:?} was not true at any moment since {since}");
        return Ok(());
    }
    if let Some(fence) = fence_of(command) {
        return check_fence_rejection(history, since, fence, rejection);
    }
    let fits = match (command, rejection) {
        (Command::Create(_), Rejection::IdempotencyMismatch { existing, .. }) => {
            history.was(*existing, since, |was| was.is_some())
        }
        (Command::Create(it), Rejection::LaneDraining { .. }) => {
            history.lane_was(partition, &it.lane, since, LaneMode::Draining)
        }
        (Command::Create(it), Rejection::Invalid(_)) => it.deadline.is_some(),
        (_, Rejection::Terminal { execution, state, reason }) => {
            let same = |was: &Folded| was.state == *state && was.reason == *reason;
            history.was(*execution, since, |was| was.is_some_and(same))
        }
        (_, Rejection::NotTerminal { execution, state, .. } | Rejection::NotActive { execution, state }) => {
            was(*execution, *state)
        }
        (Command::Replay(it), Rejection::ReplaysExhausted { .. }) => {
            history.was(it.execution, since, |was| was.is_some_and(|was| was.state.is_terminal()))
        }
        (_, Rejection::NotFound { what, id }) if what == "execution" => {
            let id = id.parse::<ExecutionId>().map_err(|error| error.to_string())?;
            history.was(id, since, |was| was.is_none())
        }
        (
            Command::DrainWorker(_) | Command::BuryWorker(_) | Command::Heartbeat(_),
            Rejection::NotFound { .. } | Rejection::WorkerUnknown { .. },
        ) => instance_of(command).is_some_and(|it| history.worker_was(partition, it, since, None)),
        (_, Rejection::WorkerDead { .. }) => {
            let instance = instance_of(command);
            instance.is_some_and(|it| history.worker_was(partition, it, since, Some(WorkerMode::Dead)))
        }
        _ => false,
    };
    ensure!(fits, "the rejection {rejection:?} of {command:?} was not true at any moment since {since}");
    Ok(())
}

fn instance_of(command: &Command) -> Option<InstanceId> {
    match command {
        Command::RegisterWorker(it) => Some(it.instance),
        Command::DrainWorker(it) => Some(it.instance),
        Command::BuryWorker(it) => Some(it.instance),
        Command::Heartbeat(it) => Some(it.instance),
        _ => None,
    }
}

/// What a submission makes, if it is carried out.
fn made_by(what: &What) -> Option<Uuid> {
    match what {
        What::Command { command: Command::Create(it), .. } => Some(it.id.0),
        What::Command { command: Command::CreateFlow(it), .. } => Some(it.id.0),
        What::Command { command: Command::StartChild(it), .. } => Some(it.create.id.0),
        _ => None,
    }
}

/// The lease a worker's call speaks for.
pub fn fence_of(command: &Command) -> Option<Fence> {
    match command {
        Command::Complete(it) => Some(it.fence),
        Command::Expand(it) => Some(it.fence),
        Command::Fail(it) => Some(it.fence),
        Command::Delay(it) => Some(it.fence),
        Command::Release(it) => Some(it.fence),
        Command::Report(it) => Some(it.fence),
        Command::Suspend(it) => Some(it.fence),
        Command::OpenWaitpoint(it) => Some(it.fence),
        Command::RecordSteps(it) => Some(it.fence),
        Command::StartChild(it) => Some(it.fence),
        Command::Append(it) => Some(it.fence),
        _ => None,
    }
}
