//! What people and programs do to work that exists: cancel, replay, hold, and the like; and to lanes and
//! workers. Everything of this kind is an event with who did it and why.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{
    BuryWorker, Cancel, DrainWorker, Hold, Remove, Replay, Revoke, SetLane, SetPriority, Tag, Unhold,
};
use ff_core::lane::{Lane, LaneMode, STRICT_STEP_MS};
use ff_core::worker::{WorkerInstance, WorkerMode};
use ff_core::{Command, Execution, ExecutionId, InstanceId, LaneName, Ms, PublicState, Reply};

use crate::fabric::odd_reply;
use crate::time::ms;
use crate::{Error, Fabric};

/// Who does something, and why.
pub(crate) struct Asked {
    pub actor: Box<str>,
    pub cause: Box<str>,
    grace_ms: Option<Ms>,
    pub expected_revision: Option<u64>,
    pub members_after: u64,
}

type Make = Box<dyn FnOnce(Asked) -> Result<Command, Error> + Send>;

/// Something to be done, which is done when it is awaited. It is asked for again while nothing answers; what must not be
/// done twice, such as a replay, ends with `outcome_unknown` instead if the answer to it was lost.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # let fabric = flowfabric::connect("memory:").await?;
/// let run = fabric.submit("charge", &7).await?;
/// fabric.hold(run.id()).actor("ada").cause("the bank is closed").await?;
/// assert!(run.explain().await?.gates[0].detail.contains("the bank is closed"));
/// # Ok(()) }
/// ```
#[must_use = "nothing is done before it is awaited"]
pub struct Operation<T> {
    fabric: Fabric,
    asked: Asked,
    make: Make,
    read: fn(Reply) -> Result<T, Error>,
}

impl<T> std::fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Asked { actor, cause, .. } = &self.asked;
        f.debug_struct("Operation").field("actor", actor).field("cause", cause).finish_non_exhaustive()
    }
}

impl<T> Operation<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        read: fn(Reply) -> Result<T, Error>,
        make: impl FnOnce(Asked) -> Result<Command, Error> + Send + 'static,
    ) -> Operation<T> {
        let (actor, cause) = ("sdk".into(), "".into());
        let asked = Asked { actor, cause, grace_ms: None, expected_revision: None, members_after: 0 };
        Operation { fabric: fabric.clone(), asked, make: Box::new(make), read }
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub(crate) fn asked_mut(&mut self) -> &mut Asked {
        &mut self.asked
    }

    /// Who does it; `sdk` otherwise.
    pub fn actor(mut self, actor: &str) -> Self {
        self.asked.actor = actor.into();
        self
    }

    /// Why.
    pub fn cause(mut self, cause: &str) -> Self {
        self.asked.cause = cause.into();
        self
    }
}

impl Operation<Cancelled> {
    /// How long a worker that runs it may take to end by itself.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.asked.grace_ms = Some(ms(grace));
        self
    }
}

impl<T: Send + 'static> IntoFuture for Operation<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let command = (self.make)(self.asked)?;
            (self.read)(self.fabric.command(command).await?)
        })
    }
}

/// Where a cancelled execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// `cancelled`, or `active` while its worker has time to end.
    pub state: PublicState,
    /// When the worker is cut off, in milliseconds since the Unix epoch.
    pub cut_at: Option<Ms>,
}

pub(crate) fn changed(reply: Reply) -> Result<Arc<Execution>, Error> {
    match reply {
        Reply::Changed(execution) => Ok(execution),
        reply => Err(odd_reply(&reply)),
    }
}

fn cancelled(reply: Reply) -> Result<Cancelled, Error> {
    match reply {
        Reply::Cancelled { state, cut_at } => Ok(Cancelled { state, cut_at }),
        reply => Err(odd_reply(&reply)),
    }
}

fn removed(reply: Reply) -> Result<(), Error> {
    match reply {
        Reply::Removed => Ok(()),
        reply => Err(odd_reply(&reply)),
    }
}

fn lane(reply: Reply) -> Result<Arc<Lane>, Error> {
    match reply {
        Reply::Lane { lane, .. } => Ok(lane),
        reply => Err(odd_reply(&reply)),
    }
}

fn worker(reply: Reply) -> Result<WorkerMode, Error> {
    match reply {
        Reply::Worker { mode, .. } => Ok(mode),
        reply => Err(odd_reply(&reply)),
    }
}

/// One execution's course.
impl Fabric {
    /// Cancels an execution. Work that has not started ends at once. Work that runs is cut off: at once, or
    /// with a [`grace`](Operation::grace), within which its worker may still complete it.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # use std::time::Duration;
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let run = fabric.submit("charge", &7).await?;
    /// fabric.cancel(run.id()).grace(Duration::from_secs(5)).cause("ordered twice").await?;
    /// assert_eq!(run.get().await?.public_state().word(), "cancelled");
    /// # Ok(()) }
    /// ```
    pub fn cancel(&self, execution: ExecutionId) -> Operation<Cancelled> {
        Operation::new(self, cancelled, move |Asked { actor, cause, grace_ms, .. }| {
            Ok(Cancel { execution, actor, cause, grace_ms }.into())
        })
    }

    /// Runs an ended execution again, in a new series of attempts.
    pub fn replay(&self, execution: ExecutionId) -> Operation<Arc<Execution>> {
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(Replay { execution, actor, cause, ended_by: None }.into())
        })
    }

    /// Keeps an execution from running until it is [released](Fabric::unhold).
    pub fn hold(&self, execution: ExecutionId) -> Operation<Arc<Execution>> {
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(Hold { execution, actor, cause }.into())
        })
    }

    /// Lets a held execution go on.
    pub fn unhold(&self, execution: ExecutionId) -> Operation<Arc<Execution>> {
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(Unhold { execution, actor, cause }.into())
        })
    }

    /// Takes a running execution away from its worker; it waits for another and no attempt is spent.
    pub fn revoke(&self, execution: ExecutionId) -> Operation<Arc<Execution>> {
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(Revoke { execution, actor, cause }.into())
        })
    }

    /// Changes the priority of an execution that has not ended: -100 to 100.
    pub fn set_priority(&self, execution: ExecutionId, priority: i8) -> Operation<Arc<Execution>> {
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(SetPriority { execution, priority, actor, cause }.into())
        })
    }

    /// Sets tags (`Some`) and removes tags (`None`).
    pub fn tag<'a>(
        &self,
        execution: ExecutionId,
        tags: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Operation<Arc<Execution>> {
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for (key, value) in tags {
            match value {
                Some(value) => set.push((key.into(), value.into())),
                None => remove.push(key.into()),
            }
        }
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(Tag { execution, set, remove, actor, cause }.into())
        })
    }

    /// Removes every trace of an ended execution.
    pub fn remove(&self, execution: ExecutionId) -> Operation<()> {
        Operation::new(self, removed, move |Asked { actor, cause, .. }| {
            Ok(Remove { execution, actor, cause }.into())
        })
    }
}

/// Lanes and workers.
impl Fabric {
    /// A lane, to be changed. It need not exist.
    pub fn lane<'a>(&'a self, name: &'a str) -> LaneHandle<'a> {
        LaneHandle { fabric: self, name }
    }

    /// The lanes whose settings were changed from the defaults, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn lanes(&self) -> Result<Vec<Arc<Lane>>, Error> {
        Ok(self.retried(|| self.link().lanes_and_workers()).await?.0)
    }

    /// The registered worker instances.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn workers(&self) -> Result<Vec<Arc<WorkerInstance>>, Error> {
        Ok(self.retried(|| self.link().lanes_and_workers()).await?.1)
    }

    /// Lets a worker instance end what it holds and gives it nothing new; a [`Worker`](crate::Worker) of this
    /// SDK then stops.
    pub fn drain_worker(&self, instance: InstanceId) -> Operation<WorkerMode> {
        Operation::new(self, worker, move |Asked { actor, cause, .. }| {
            Ok(DrainWorker { instance, actor, cause }.into())
        })
    }

    /// Declares a worker instance dead; what it holds goes to others at once.
    pub fn bury_worker(&self, instance: InstanceId) -> Operation<WorkerMode> {
        Operation::new(self, worker, move |Asked { actor, cause, .. }| {
            Ok(BuryWorker { instance, actor, cause }.into())
        })
    }
}

/// A lane by its name.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # let fabric = flowfabric::connect("memory:").await?;
/// // When this returns, nothing of the lane starts anywhere.
/// fabric.lane("billing").pause().cause("the bank is closed").await?;
/// let run = fabric.submit("charge", &7).lane("billing").await?;
/// assert_eq!(run.explain().await?.reason, "lane_paused");
/// fabric.lane("billing").resume().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LaneHandle<'a> {
    fabric: &'a Fabric,
    name: &'a str,
}

/// Settings of a lane that are to be changed; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSettings {
    pub mode: Option<LaneMode>,
    /// How much of a head start one point of priority is.
    pub step: Option<Duration>,
    /// How long ended executions are kept.
    pub retention: Option<Duration>,
    /// Whether renewals of leases are events.
    pub renewed_events: Option<bool>,
}

impl LaneHandle<'_> {
    /// Nothing of it starts until it is resumed; it still takes work.
    pub fn pause(self) -> Operation<Arc<Lane>> {
        self.mode(LaneMode::Paused)
    }

    pub fn resume(self) -> Operation<Arc<Lane>> {
        self.mode(LaneMode::Open)
    }

    /// What is in it is worked off; it takes no new work until it is resumed.
    pub fn drain(self) -> Operation<Arc<Lane>> {
        self.mode(LaneMode::Draining)
    }

    /// Higher priorities always go first, however long the others have waited.
    pub fn strict(self) -> Operation<Arc<Lane>> {
        let step = Some(Duration::from_millis(STRICT_STEP_MS.unsigned_abs()));
        self.set(LaneSettings { step, ..LaneSettings::default() })
    }

    fn mode(self, mode: LaneMode) -> Operation<Arc<Lane>> {
        self.set(LaneSettings { mode: Some(mode), ..LaneSettings::default() })
    }

    pub fn set(self, settings: LaneSettings) -> Operation<Arc<Lane>> {
        let name = LaneName::parse(self.name).map_err(Error::from);
        Operation::new(self.fabric, lane, move |Asked { actor, cause, .. }| {
            Ok(SetLane {
                lane: name?,
                mode: settings.mode,
                step_ms: settings.step.map(ms),
                retention_ms: settings.retention.map(ms),
                renewed_events: settings.renewed_events,
                actor,
                cause,
            }
            .into())
        })
    }
}
