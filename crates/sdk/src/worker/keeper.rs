//! The keeper: renews the leases of everything a worker runs, and notices what it should stop.
//!
//! It has a thread of its own, because handlers that block their runtime must not cost the leases of all
//! others. It renews everything in one call when the first lease has used up a third of its length, looks at
//! single leases when the engine says that they were disturbed, and gives a lease up for lost when it could
//! not be renewed in time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ff_core::commands::Heartbeat;
use ff_core::execution::Fence;
use ff_core::reply::Renewal;
use ff_core::worker::WorkerMode;
use ff_core::{ExecutionId, InstanceId, Ms, Rejection, Reply};
use ff_engine::Failure;
use tokio::sync::mpsc;

use super::crew::{Crew, Order};
use super::running::Running;
use crate::time::Asking;

/// How long an instance may be silent before it counts as dead, and how often it is heard of.
pub(super) const TTL_MS: Ms = 30_000;
const HEARTBEAT_MS: Ms = TTL_MS / 3;
/// How long a renewal may take, at the least and at the most: a quarter of the lease, so that a connection that has gone
/// silent leaves time for others.
const RENEW: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

type Call<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// The answer to a renewal: when it was sent, for what, and what came of it.
struct Renewed {
    sent_at: Ms,
    fences: Vec<Fence>,
    results: Vec<Result<Renewal, Failure>>,
    _asking: Asking,
}

/// Starts the keeper; it ends when it is told to stop.
pub(super) fn start(crew: Arc<Crew>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let keeper = Keeper::new(crew);
    let run = move || runtime.block_on(keeper.run());
    std::thread::Builder::new().name("flowfabric-keeper".to_owned()).spawn(run)?;
    Ok(())
}

struct Keeper {
    crew: Arc<Crew>,
    instance: InstanceId,
    disturbed: mpsc::UnboundedReceiver<ExecutionId>,
    /// Leases that were disturbed and are to be looked at now.
    urgent: Vec<Fence>,
    renewal: Call<Renewed>,
    heartbeat: Call<(Result<Reply, Failure>, Asking)>,
    next_heartbeat: Ms,
}

/// What the keeper wakes up for.
enum News {
    Order,
    Renewed(Renewed),
    Heard(Result<Reply, Failure>, Asking),
    Disturbed(ExecutionId),
    Time,
}

impl Keeper {
    fn new(crew: Arc<Crew>) -> Keeper {
        let instance = match *crew.orders.borrow() {
            Order::Work(instance) | Order::Register(instance) | Order::Drain(instance) => instance,
            Order::Stop => InstanceId(uuid::Uuid::nil()),
        };
        let disturbed = watch(&crew, instance);
        let next_heartbeat = crew.fabric.time().now() + HEARTBEAT_MS;
        Keeper {
            crew,
            instance,
            disturbed,
            urgent: Vec::new(),
            renewal: None,
            heartbeat: None,
            next_heartbeat,
        }
    }

    async fn run(mut self) {
        let mut alarm = self.crew.fabric.time().alarm();
        let mut orders = self.crew.orders.subscribe();
        orders.mark_changed();
        let crew = self.crew.clone();
        loop {
            // Whoever starts something from here on must say so: this look may not see it.
            self.crew.keeper_wakes_at.store(Ms::MAX, Ordering::Release);
            let told = self.crew.keeper_told.lock().unwrap_or_else(PoisonError::into_inner).take();
            let now = self.crew.fabric.time().now();
            let wake_at = self.look_after(now);
            drop(told);
            self.crew.keeper_wakes_at.store(wake_at, Ordering::Release);
            let news = tokio::select! {
                biased;
                _ = orders.changed() => News::Order,
                renewed = answer(&mut self.renewal) => News::Renewed(renewed),
                (reply, asking) = answer(&mut self.heartbeat) => News::Heard(reply, asking),
                Some(id) = self.disturbed.recv() => News::Disturbed(id),
                () = crew.keeper.notified() => News::Time,
                () = alarm.until(wake_at) => News::Time,
            };
            match news {
                News::Order => match *orders.borrow_and_update() {
                    Order::Stop => return,
                    Order::Work(instance) if instance != self.instance => self.serve(instance),
                    _ => {}
                },
                News::Renewed(renewed) => self.renewed(renewed),
                News::Heard(reply, _asking) => self.heard(&reply),
                News::Disturbed(id) => self.disturbed(id),
                News::Time => {}
            }
        }
    }

    /// The worker goes on as another instance.
    fn serve(&mut self, instance: InstanceId) {
        self.instance = instance;
        self.disturbed = watch(&self.crew, instance);
        self.next_heartbeat = self.crew.fabric.time().now() + HEARTBEAT_MS;
    }

    /// Does what is due; returns when to look again. Answers wake the keeper by themselves.
    fn look_after(&mut self, now: Ms) -> Ms {
        if now >= self.next_heartbeat && self.heartbeat.is_none() {
            self.beat(now);
        }
        let (mut renew_at, mut ends_at, mut shortest) = (Ms::MAX, Ms::MAX, Ms::MAX);
        let mut held = Vec::new();
        for running in self.crew.running().values().filter(|it| !it.is_over()) {
            if running.ends_at() <= now {
                running.run_out();
                continue;
            }
            renew_at = renew_at.min(running.renew_at());
            ends_at = ends_at.min(running.ends_at());
            shortest = shortest.min(running.lease_ms());
            held.push(running.fence());
        }
        if self.renewal.is_none() {
            let disturbed = std::mem::take(&mut self.urgent);
            // If one is due, all are renewed, so that there is one call for all.
            self.renew(now, shortest, if renew_at <= now { held } else { disturbed });
        }
        let renew_at = if self.renewal.is_none() { renew_at } else { Ms::MAX };
        let beat_at = if self.heartbeat.is_none() { self.next_heartbeat } else { Ms::MAX };
        renew_at.min(beat_at).min(ends_at)
    }

    fn beat(&mut self, now: Ms) {
        self.next_heartbeat = now + HEARTBEAT_MS;
        let (link, instance) = (self.crew.fabric.link().clone(), self.instance);
        let asking = self.crew.fabric.time().asking();
        self.heartbeat = Some(Box::pin(async move { (link.execute(Heartbeat { instance }).await, asking) }));
    }

    fn renew(&mut self, now: Ms, lease_ms: Ms, fences: Vec<Fence>) {
        let (link, instance) = (self.crew.fabric.link().clone(), self.instance);
        if fences.is_empty() {
            return;
        }
        let _asking = self.crew.fabric.time().asking();
        let within = Duration::from_millis(u64::try_from(lease_ms / 4).unwrap_or(0)).clamp(RENEW.0, RENEW.1);
        // Counted from now: the lease cannot have been granted before it was asked for.
        self.renewal = Some(Box::pin(async move {
            let results = link.renew(instance, fences.clone(), within).await;
            Renewed { sent_at: now, fences, results, _asking }
        }));
    }

    fn renewed(&mut self, Renewed { sent_at, fences, results, _asking }: Renewed) {
        let now = self.crew.fabric.time().now();
        let mut failed = None;
        for (fence, result) in fences.iter().zip(results) {
            let Some(running) = self.find(fence.execution).filter(|it| it.fence() == *fence) else {
                continue;
            };
            match result {
                Ok(renewal) => {
                    running.renewed(sent_at);
                    if renewal.cancel.is_some() {
                        running.request_cancel();
                    }
                }
                Err(Failure::Rejected(rejection)) => {
                    tracing::debug!(%rejection, "a lease is lost");
                    running.lose();
                }
                Err(failure) => {
                    running.not_renewed(now);
                    failed = Some(failure);
                }
            }
        }
        if let Some(failure) = failed {
            tracing::warn!(%failure, "leases were not renewed; trying again");
        }
    }

    fn disturbed(&mut self, id: ExecutionId) {
        let mut ids = vec![id];
        while let Ok(id) = self.disturbed.try_recv() {
            ids.push(id);
        }
        // Other processes' commits are told to everybody; most are not about this worker.
        let fences: Vec<Fence> = ids.into_iter().filter_map(|id| Some(self.find(id)?.fence())).collect();
        self.urgent.extend(fences);
    }

    fn heard(&mut self, reply: &Result<Reply, Failure>) {
        match reply {
            Ok(Reply::Worker { mode: WorkerMode::Draining, .. }) => {
                self.crew.orders.send_if_modified(|order| give(order, Order::Drain(self.instance)));
            }
            Err(Failure::Rejected(Rejection::WorkerUnknown { .. } | Rejection::WorkerDead { .. })) => {
                self.crew.orders.send_if_modified(|order| give(order, Order::Register(self.instance)));
            }
            Ok(_) => {}
            Err(failure) => tracing::warn!(%failure, "the heartbeat was not stored"),
        }
    }

    fn find(&self, id: ExecutionId) -> Option<Arc<Running>> {
        self.crew.running().get(&id).cloned()
    }
}

/// Listens for news about what an instance holds.
fn watch(crew: &Arc<Crew>, instance: InstanceId) -> mpsc::UnboundedReceiver<ExecutionId> {
    let held = {
        let crew = crew.clone();
        move || {
            let fine = |it: &&Arc<Running>| !it.is_over() && !it.is_cancelled();
            crew.running().values().filter(fine).map(|it| it.fence()).collect()
        }
    };
    crew.fabric.link().watch_leases(instance, held)
}

/// Replaces the order to work as an instance by another order to it.
fn give(order: &mut Order, new: Order) -> bool {
    let (Order::Register(about) | Order::Drain(about)) = new else { return false };
    if *order != Order::Work(about) {
        return false;
    }
    *order = new;
    true
}

/// The answer to a call that is under way.
async fn answer<T>(call: &mut Call<T>) -> T {
    let answer = match call {
        Some(call) => call.as_mut().await,
        None => std::future::pending().await,
    };
    *call = None;
    answer
}
