//! What a worker asks: for tasks, for its leases to be renewed, and for news about them.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ff_api::record::{BeatRecord, Renewed, TaskRecord, Tasks};
use ff_api::time::Span;
use ff_api::worker::{Beating, Claiming};
use ff_core::commands::Poll;
use ff_core::execution::Fence;
use ff_core::reply::Renewal;
use ff_core::worker::WorkerMode;
use ff_core::{ExecutionId, InstanceId, Reply};
use ff_engine::{Failure, Task};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use super::http::Http;
use super::traffic::Traffic;
use super::{Remote, commanded, post, problem, read};
use crate::fabric::Patience;

/// How long one question for news stays open.
const NEWS: Duration = Duration::from_secs(30);
/// When a claim is confirmed that no other has followed, and how often that is tried.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);
const CONFIRM_TRIES: usize = 6;
/// How many instances may be forgotten together; each has a few bytes.
const POLLS_MAX: usize = 1_000;

/// The newest claim of an instance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polled {
    number: u64,
    /// Whether its answer has come. If not, the same number is asked again, and what was claimed for it comes again.
    answered: bool,
}

impl Remote {
    fn polls(&self) -> MutexGuard<'_, FxHashMap<InstanceId, Polled>> {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number under which an instance claims next, and whether it did so before.
    fn next_poll(&self, instance: InstanceId) -> (u64, bool) {
        let mut polls = self.polls();
        if polls.len() > POLLS_MAX {
            polls.retain(|it, _| *it == instance);
        }
        let polled = polls.entry(instance).or_insert(Polled { number: 0, answered: true });
        let again = !polled.answered;
        if !again {
            *polled = Polled { number: polled.number + 1, answered: false };
        }
        (polled.number, again)
    }

    /// Safe to drop: what was claimed for it comes with the next question, or goes to others.
    pub async fn poll(&self, poll: Arc<Poll>, max: usize, wait: Duration) -> Result<Vec<Task>, Failure> {
        let instance = poll.instance;
        let (number, again) = self.next_poll(instance);
        let claiming = Claiming {
            max: Some(u32::try_from(max.clamp(1, 1_000)).unwrap_or(1)),
            wait_ms: Some(Span(crate::time::ms(wait))),
            poll: Some(number),
            ..Claiming::from(&*poll)
        };
        let call = post(format!("/v1/workers/{instance}/claim"), &claiming)?.waiting(wait);
        let answer = self.change::<Tasks>(call).await;
        let unanswered = matches!(answer, Err(Failure::OutcomeUnknown | Failure::Unavailable(_)));
        if !unanswered && let Some(polled) = self.polls().get_mut(&instance) {
            polled.answered = true;
        }
        let tasks: Vec<Task> = answer?.tasks.into_iter().map(task).collect();
        if tasks.is_empty() {
            return Ok(tasks);
        }
        if again {
            return self.still_held(instance, tasks).await;
        }
        self.confirm_soon(instance, number, &tasks);
        Ok(tasks)
    }

    /// A server takes back what it does not hear of any more. A busy worker confirms with its next question; one that has
    /// no room for more says so.
    fn confirm_soon(&self, instance: InstanceId, number: u64, tasks: &[Task]) {
        let leases = tasks.iter().map(|task| task.execution.fence().into()).collect();
        let beating = Beating { leases, wait_ms: None };
        let (http, polls) = (self.http.clone(), self.polls.clone());
        let confirming = async move {
            tokio::time::sleep(CONFIRM_AFTER).await;
            for _ in 0..CONFIRM_TRIES {
                let newest = polls.lock().unwrap_or_else(PoisonError::into_inner).get(&instance).copied();
                if newest.is_none_or(|it| it.number != number) {
                    return;
                }
                let Ok(call) = post(heartbeat_of(instance), &beating) else { return };
                match http.ask(call).await {
                    Ok(_) => return,
                    Err(none) => tracing::debug!(?none, "a claim is not confirmed yet"),
                }
                tokio::time::sleep(CONFIRM_AFTER / 2).await;
            }
        };
        self.http.spawn(confirming).let_go();
    }

    /// What was claimed for a question that was asked twice may be older than its answer; its leases count from now.
    async fn still_held(&self, instance: InstanceId, tasks: Vec<Task>) -> Result<Vec<Task>, Failure> {
        let fences = tasks.iter().map(|task| task.execution.fence()).collect();
        let renewed = self.renew(instance, fences).await;
        let held = tasks.into_iter().zip(renewed).filter(|(_, renewal)| renewal.is_ok());
        Ok(held.map(|(task, _)| task).collect())
    }

    /// Renews leases and says that the instance is alive.
    pub async fn renew(&self, instance: InstanceId, fences: Vec<Fence>) -> Vec<Result<Renewal, Failure>> {
        let count = fences.len();
        let leases = fences.into_iter().map(Into::into).collect();
        match self.heartbeat(instance, &Beating { leases, wait_ms: None }).await {
            Ok(beat) if beat.leases.len() == count => beat.leases.into_iter().map(renewal).collect(),
            Ok(_) => {
                vec![Err(Failure::Internal("a heartbeat was answered for other leases".to_owned())); count]
            }
            Err(failure) => vec![Err(failure); count],
        }
    }

    /// Says that the instance is alive.
    pub(super) async fn beat(&self, instance: InstanceId) -> Result<Reply, Failure> {
        let beat = self.heartbeat(instance, &Beating { leases: Vec::new(), wait_ms: None }).await?;
        let mode = WorkerMode::ALL.iter().copied().find(|mode| mode.word() == beat.mode);
        let mode = mode.ok_or_else(|| Failure::Internal(format!("a worker cannot be {:?}", beat.mode)))?;
        Ok(Reply::Worker { mode, deliveries: Vec::new() })
    }

    async fn heartbeat(&self, instance: InstanceId, beating: &Beating) -> Result<BeatRecord, Failure> {
        self.question(post(heartbeat_of(instance), beating)?).await
    }

    /// Sends the ids of executions whose lease should be looked at, until nobody listens.
    pub fn watch_leases(
        &self,
        instance: InstanceId,
        held: impl Fn() -> Vec<Fence> + Send + Sync + 'static,
    ) -> mpsc::UnboundedReceiver<ExecutionId> {
        let (disturbed, receiver) = mpsc::unbounded_channel();
        let (mut closed, news) = (self.closed.subscribe(), News { http: self.http.clone(), instance });
        let traffic = self.traffic.clone();
        let watching = async move {
            tokio::select! {
                () = disturbed.closed() => {}
                _ = closed.wait_for(|closed| *closed) => {}
                () = news.follow(held, &disturbed, &traffic) => {}
            }
        };
        self.http.spawn(watching).let_go();
        receiver
    }
}

/// A question for news about the leases of an instance, asked again and again.
struct News {
    http: Http,
    instance: InstanceId,
}

impl News {
    async fn follow(
        &self,
        held: impl Fn() -> Vec<Fence>,
        disturbed: &mpsc::UnboundedSender<ExecutionId>,
        traffic: &Arc<Traffic>,
    ) {
        let mut patience = Patience::of(Duration::MAX);
        loop {
            let fences = held();
            let on_its_way = traffic.enter(NEWS);
            match self.ask(&fences).await {
                Ok(beat) => {
                    patience.calm();
                    let looked = fences.iter().zip(&beat.leases).filter(|(_, renewed)| is_news(renewed));
                    let told = looked.map(|(fence, _)| fence.execution).chain(beat.disturbed.iter().copied());
                    told.for_each(|id| _ = disturbed.send(id));
                }
                Err(failure) => {
                    drop(on_its_way);
                    tracing::debug!(%failure, "no news about leases");
                    patience.pause().await;
                }
            }
        }
    }

    /// Asks for what has happened to these leases, or happens soon to any.
    async fn ask(&self, fences: &[Fence]) -> Result<BeatRecord, Failure> {
        let leases = fences.iter().map(|fence| (*fence).into()).collect();
        let beating = Beating { leases, wait_ms: Some(Span(crate::time::ms(NEWS))) };
        let call = post(heartbeat_of(self.instance), &beating)?.waiting(NEWS);
        read(commanded(self.http.ask(call).await)?)
    }
}

/// Whether the keeper should look at a lease.
fn is_news(renewed: &Renewed) -> bool {
    !matches!(renewed, Renewed::Until(renewal) if renewal.cancel.is_none())
}

fn heartbeat_of(instance: InstanceId) -> String {
    format!("/v1/workers/{instance}/heartbeat")
}

fn task(TaskRecord { execution, input, steps, signals }: TaskRecord) -> Task {
    Task { execution, input, steps, signals }
}

fn renewal(renewed: Renewed) -> Result<Renewal, Failure> {
    match renewed {
        Renewed::Until(renewal) => Ok(renewal),
        Renewed::Refused(problem) => Err(problem::of(problem)),
    }
}
