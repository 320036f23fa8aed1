//! A worker's shift: register, ask for work while there is room, drain, leave.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{BuryWorker, Poll, RegisterWorker, Release};
use ff_core::execution::Fence;
use ff_core::{Command, InstanceId, Ms, Rejection};
use ff_engine::Failure;

use super::crew::{Crew, Order};
use super::{Plan, Stopped, keeper};
use crate::context::Data;
use crate::handler::Handlers;
use crate::time::ms;
use crate::{Error, Fabric};

/// How long one question for work stays open.
const POLL_WAIT: Duration = Duration::from_secs(20);
/// How long a few free places wait for more to become free, so that work is claimed in batches.
const GATHER: Duration = Duration::from_millis(2);
/// A claim is not older than this when its answer arrives, however long the question was open.
const CLAIM_AGE_MS: Ms = 1_000;
/// How long a worker that stops takes at most to give back what it holds and to say so: whoever stops it waits for that.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// Pauses after a question for work that failed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Works until `shutdown` ends or an operator drains the worker.
pub(super) async fn work(
    fabric: Fabric,
    plan: Plan,
    handlers: Handlers,
    data: Data,
    concurrency: usize,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> Result<Stopped, Error> {
    let instance = register(&fabric, &plan).await?;
    let crew = Arc::new(Crew::new(fabric, handlers, data, concurrency, instance));
    let mut shift = Shift { crew, plan, instance };
    keeper::start(shift.crew.clone())
        .map_err(|error| Error::Internal(format!("cannot start the keeper of leases: {error}")))?;
    let end = {
        let asking = shift.ask_for_work();
        tokio::pin!(shutdown, asking);
        tokio::select! {
            biased;
            () = shutdown => Ok(false),
            end = asking => end.map(|()| true),
        }
    };
    let given_back = shift.drain(grace).await;
    Ok(Stopped { drained: end?, given_back })
}

/// Registers a new instance.
async fn register(fabric: &Fabric, plan: &Plan) -> Result<InstanceId, Error> {
    let link = fabric.link();
    let instance = link.new_instance_id(fabric.wall());
    let command = RegisterWorker {
        instance,
        name: plan.name.clone(),
        lanes: plan.lanes.clone(),
        capabilities: plan.capabilities(),
        build: plan.build.clone(),
        server: link.server().map(Into::into),
        owner: None,
        ttl_ms: keeper::TTL_MS,
    };
    fabric.command(command.into()).await?;
    Ok(instance)
}

struct Shift {
    crew: Arc<Crew>,
    plan: Plan,
    instance: InstanceId,
}

/// A shift that is dropped before its end is like a process that is killed: nothing more is done for what it
/// holds.
impl Drop for Shift {
    fn drop(&mut self) {
        self.crew.orders.send_replace(Order::Stop);
        self.crew.running().values().for_each(|running| running.lose());
        self.crew.fabric.link().forget_claims(self.instance);
    }
}

impl Shift {
    /// Asks for work while there is room; returns when an operator drains this worker.
    async fn ask_for_work(&mut self) -> Result<(), Error> {
        let crew = self.crew.clone();
        let mut orders = crew.orders.subscribe();
        let mut poll = self.poll();
        let mut pause = PAUSE.0;
        loop {
            let order = *orders.borrow_and_update();
            match order {
                Order::Work(_) => {}
                Order::Register(_) => {
                    self.register_again().await?;
                    poll = self.poll();
                    continue;
                }
                Order::Drain(_) | Order::Stop => return Ok(()),
            }
            let asked = async {
                let free = room(&crew).await;
                let sent_at = crew.fabric.time().now();
                (sent_at, crew.fabric.link().poll(poll.clone(), free, POLL_WAIT).await)
            };
            let (sent_at, answer) = tokio::select! {
                biased;
                _ = orders.changed() => continue,
                answer = asked => answer,
            };
            match answer {
                Ok(tasks) => {
                    pause = PAUSE.0;
                    let answered_at = crew.fabric.time().now();
                    crew.take_on(tasks, sent_at.max(answered_at - CLAIM_AGE_MS));
                }
                Err(Failure::Rejected(Rejection::WorkerDraining { .. })) => return Ok(()),
                Err(Failure::Rejected(Rejection::WorkerUnknown { .. } | Rejection::WorkerDead { .. })) => {
                    self.register_again().await?;
                    poll = self.poll();
                }
                Err(Failure::Rejected(rejection)) => return Err(Failure::Rejected(rejection).into()),
                Err(failure @ (Failure::Refused { .. } | Failure::ShuttingDown)) => {
                    return Err(failure.into());
                }
                Err(failure) => {
                    tracing::warn!(%failure, "no work was claimed; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
    }

    fn poll(&self) -> Arc<Poll> {
        Arc::new(Poll {
            worker: self.plan.name.clone(),
            instance: self.instance,
            lanes: self.plan.lanes.clone(),
            kinds: self.crew.handlers.keys().cloned().collect(),
            namespaces: self.plan.namespaces.clone(),
            capabilities: self.plan.capabilities(),
        })
    }

    /// The old instance counts as dead or was forgotten; what it held is lost or will be.
    async fn register_again(&mut self) -> Result<(), Error> {
        tracing::warn!(instance = %self.instance, "this worker counts as dead; it goes on as a new instance");
        self.crew.fabric.link().forget_claims(self.instance);
        self.instance = register(&self.crew.fabric, &self.plan).await?;
        self.crew.orders.send_replace(Order::Work(self.instance));
        Ok(())
    }

    /// Lets handlers finish for a while, gives the rest back, and leaves. Leases are renewed to the end.
    async fn drain(mut self, grace: Duration) -> usize {
        let crew = self.crew.clone();
        let mut alarm = crew.fabric.time().alarm();
        let until = crew.fabric.time().now().saturating_add(ms(grace));
        tokio::select! {
            biased;
            () = finished(&crew) => {}
            () = alarm.until(until) => {}
        }
        drop(alarm);
        let mut given_back = 0;
        let leaving = async {
            given_back = self.give_back().await;
            let cause = "stopped".into();
            let bury = BuryWorker { instance: self.instance, actor: (*self.plan.name).into(), cause };
            if let Err(failure) = crew.fabric.link().execute(bury).await {
                tracing::debug!(%failure, "the worker could not say that it stops");
            }
        };
        if tokio::time::timeout(LEAVE_WITHIN, leaving).await.is_err() {
            tracing::warn!(
                "nobody has answered that this worker stops; what it held goes to others when its leases end"
            );
        }
        given_back
    }

    /// Gives back what still runs. The handlers stop, and what they were doing counts for nothing.
    async fn give_back(&mut self) -> usize {
        let claimed = self.crew.fabric.link().forget_claims(self.instance);
        let fences: Vec<Fence> = {
            let all = self.crew.running();
            all.values().for_each(|running| running.lose());
            all.values().map(|running| running.fence()).chain(claimed).collect()
        };
        let release = |fence: &Fence| Command::from(Release::new(*fence));
        let results = self.crew.fabric.link().execute_all(fences.iter().map(release).collect()).await;
        results.iter().filter(|result| result.is_ok()).count()
    }
}

/// Waits until a good part of the places is free, or a moment after the first one is.
async fn room(crew: &Crew) -> usize {
    let enough = (crew.concurrency / 4).max(1);
    let gathering = tokio::time::sleep(GATHER);
    tokio::pin!(gathering);
    let mut since_first = false;
    loop {
        let free = crew.free();
        if free >= enough {
            return free;
        }
        if free > 0 && !since_first {
            since_first = true;
            gathering.as_mut().reset(tokio::time::Instant::now() + GATHER);
        }
        // A place that was freed since the look above has left a permit behind.
        tokio::select! {
            biased;
            () = crew.freed.notified() => {}
            () = &mut gathering, if since_first => return crew.free().max(1),
        }
    }
}

async fn finished(crew: &Crew) {
    while !crew.is_empty() {
        crew.freed.notified().await;
    }
}
