//! What a worker asks: for tasks, for its leases to be renewed, and for news about them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_api::record::{BeatRecord, Renewed, TaskRecord, Tasks};
use ff_api::time::Span;
use ff_api::worker::{Beating, Claiming};
use ff_core::commands::Poll;
use ff_core::execution::Fence;
use ff_core::reply::Renewal;
use ff_core::worker::WorkerMode;
use ff_core::{ExecutionId, InstanceId, Rejection, Reply};
use ff_engine::{Failure, Task};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use super::http::Http;
use super::traffic::Traffic;
use super::{Remote, commanded, post, problem, read};
use crate::fabric::Patience;

/// How long one question for news stays open.
const NEWS: Duration = Duration::from_secs(30);
/// The shortest time between two questions for news.
const NEWS_PAUSE: Duration = Duration::from_millis(100);
/// When a claim is confirmed that no other has followed, how often that is tried, and how long each try may take: servers
/// wait for five seconds.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);
const CONFIRM_TRIES: usize = 6;
const CONFIRM_WITHIN: Duration = Duration::from_secs(1);
/// How long a sign of life may take. A connection that is silent for longer is given up while there is time for another.
const BEAT_WITHIN: Duration = Duration::from_secs(8);

/// The newest claim of an instance.
#[derive(Debug, Default)]
pub(super) struct Polled {
    number: u64,
    /// Whether its answer has come. If not, the same number is asked again, and what was claimed for it comes again.
    answered: bool,
    /// What came when it was asked again, until it is known what of it is still held.
    came: Option<Arc<Vec<Task>>>,
}

/// How a claim is asked.
struct Ask {
    number: u64,
    /// Whether it was asked before.
    again: bool,
    came: Option<Arc<Vec<Task>>>,
}

impl Remote {
    fn polls(&self) -> MutexGuard<'_, FxHashMap<InstanceId, Polled>> {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_poll(&self, instance: InstanceId) -> Ask {
        let mut polls = self.polls();
        let polled = polls.entry(instance).or_insert(Polled { number: 0, answered: true, came: None });
        let again = !polled.answered;
        if !again {
            *polled = Polled { number: polled.number + 1, answered: false, came: None };
        }
        Ask { number: polled.number, again, came: polled.came.clone() }
    }

    /// Forgets the claims of an instance that claims no more; returns what it has been given and does not know of.
    pub fn forget_claims(&self, instance: InstanceId) -> Vec<Fence> {
        let came = self.polls().remove(&instance).and_then(|it| it.came).unwrap_or_default();
        came.iter().map(|task| task.execution.fence()).collect()
    }

    /// Safe to drop: what was claimed for it comes with the next question, or goes to others.
    pub async fn poll(&self, poll: Arc<Poll>, max: usize, wait: Duration) -> Result<Vec<Task>, Failure> {
        let instance = poll.instance;
        let Ask { number, again, came } = self.next_poll(instance);
        if let Some(tasks) = came {
            return self.still_held(instance, &tasks).await;
        }
        let claiming = Claiming {
            max: Some(u32::try_from(max.clamp(1, 1_000)).unwrap_or(1)),
            wait_ms: Some(Span(crate::time::ms(wait))),
            poll: Some(number),
            ..Claiming::from(&*poll)
        };
        let call = post(format!("/v1/workers/{instance}/claim"), &claiming)?.waiting(wait);
        let tasks: Vec<Task> = match self.change::<Tasks>(call).await {
            Ok(answer) => answer.tasks.into_iter().map(task).collect(),
            Err(failure) => {
                // What was claimed for an answer that did not come, or that cannot be read, comes again or goes to others.
                if matches!(failure, Failure::Rejected(_) | Failure::Refused { .. }) {
                    self.answered(instance);
                }
                return Err(failure);
            }
        };
        if again && !tasks.is_empty() {
            let tasks = Arc::new(tasks);
            if let Some(polled) = self.polls().get_mut(&instance) {
                polled.came = Some(tasks.clone());
            }
            return self.still_held(instance, &tasks).await;
        }
        self.answered(instance);
        if !tasks.is_empty() {
            self.confirm_soon(instance, number, &tasks);
        }
        Ok(tasks)
    }

    /// The next claim has another number, which confirms this one.
    fn answered(&self, instance: InstanceId) {
        if let Some(polled) = self.polls().get_mut(&instance) {
            (polled.answered, polled.came) = (true, None);
        }
    }

    /// A server takes back what it does not hear of any more. A busy worker confirms with its next question; one that has
    /// no room for more says so.
    fn confirm_soon(&self, instance: InstanceId, number: u64, tasks: &[Task]) {
        let fences: Vec<Fence> = tasks.iter().map(|task| task.execution.fence()).collect();
        let beating = Beating { leases: fences.iter().map(|fence| (*fence).into()).collect(), wait_ms: None };
        let (http, polls, watchers) = (self.http.clone(), self.polls.clone(), self.watchers.clone());
        let confirming = async move {
            tokio::time::sleep(CONFIRM_AFTER).await;
            for _ in 0..CONFIRM_TRIES {
                let newest = |polls: &FxHashMap<_, Polled>| polls.get(&instance).map(|it| it.number);
                if newest(&polls.lock().unwrap_or_else(PoisonError::into_inner)) != Some(number) {
                    return;
                }
                let Ok(call) = post(heartbeat_of(instance), &beating) else { return };
                let answer = commanded(http.ask(call.answered_within(CONFIRM_WITHIN)).await);
                match answer.and_then(read::<BeatRecord>) {
                    // The answer may have come so late that they are another's by now.
                    Ok(beat) => return watchers.tell(instance, &fences, &beat),
                    Err(failure) => tracing::debug!(%failure, "a claim is not confirmed yet"),
                }
                tokio::time::sleep(CONFIRM_AFTER / 2).await;
            }
        };
        self.http.spawn(confirming).let_go();
    }

    /// What was claimed for a question that was asked twice may be older than its answer; its leases count from now. If
    /// that cannot be found out, it is asked once more: the server may count the tasks as confirmed by now, and does not
    /// give them again.
    async fn still_held(&self, instance: InstanceId, tasks: &[Task]) -> Result<Vec<Task>, Failure> {
        let fences = tasks.iter().map(|task| task.execution.fence()).collect();
        let mut held = Vec::with_capacity(tasks.len());
        for (task, renewal) in tasks.iter().zip(self.renew(instance, fences, BEAT_WITHIN).await) {
            match renewal {
                Ok(_) => held.push(task.clone()),
                Err(Failure::Rejected(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.answered(instance);
        Ok(held)
    }

    /// Renews leases and says that the instance is alive.
    pub async fn renew(
        &self,
        instance: InstanceId,
        fences: Vec<Fence>,
        within: Duration,
    ) -> Vec<Result<Renewal, Failure>> {
        let mut renewed = Vec::with_capacity(fences.len());
        for part in fences.chunks(self.limits.batch_items_max.max(1)) {
            let leases = part.iter().map(|fence| (*fence).into()).collect();
            match self.heartbeat(instance, &Beating { leases, wait_ms: None }, within).await {
                Ok(beat) if beat.leases.len() == part.len() => {
                    renewed.extend(beat.leases.into_iter().map(renewal));
                }
                Ok(_) => {
                    let other = Failure::Internal("a heartbeat was answered for other leases".to_owned());
                    renewed.extend(std::iter::repeat_n(Err(other), part.len()));
                }
                Err(failure) => {
                    renewed.extend(std::iter::repeat_n(Err(about_all(failure)), part.len()));
                }
            }
        }
        renewed
    }

    /// Says that the instance is alive.
    pub(super) async fn beat(&self, instance: InstanceId) -> Result<Reply, Failure> {
        let beating = Beating { leases: Vec::new(), wait_ms: None };
        let beat = self.heartbeat(instance, &beating, BEAT_WITHIN).await?;
        let mode = WorkerMode::ALL.iter().copied().find(|mode| mode.word() == beat.mode);
        let mode = mode.ok_or_else(|| Failure::Internal(format!("a worker cannot be {:?}", beat.mode)))?;
        Ok(Reply::Worker { mode, deliveries: Vec::new() })
    }

    async fn heartbeat(
        &self,
        instance: InstanceId,
        beating: &Beating,
        within: Duration,
    ) -> Result<BeatRecord, Failure> {
        self.question(post(heartbeat_of(instance), beating)?.answered_within(within)).await
    }

    /// Sends the ids of executions whose lease should be looked at, until nobody listens.
    pub fn watch_leases(
        &self,
        instance: InstanceId,
        held: impl Fn() -> Vec<Fence> + Send + Sync + 'static,
    ) -> mpsc::UnboundedReceiver<ExecutionId> {
        let (disturbed, receiver) = mpsc::unbounded_channel();
        self.watchers.add(instance, disturbed.clone());
        let news = News { http: self.http.clone(), instance, leases_max: self.limits.batch_items_max.max(1) };
        let (mut closed, traffic) = (self.closed.subscribe(), self.traffic.clone());
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
    /// How many leases one question speaks of; of the others the keeper hears when it renews them.
    leases_max: usize,
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
            let mut fences = held();
            fences.truncate(self.leases_max);
            let on_its_way = traffic.enter(NEWS);
            match self.ask(&fences).await {
                Ok(beat) => {
                    patience.calm();
                    tell(disturbed, &fences, &beat);
                    // Whatever makes a server answer at once, it is not asked without a pause.
                    drop(on_its_way);
                    tokio::time::sleep(NEWS_PAUSE).await;
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

/// Who listens for news about the leases of which instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchers(Arc<Mutex<FxHashMap<InstanceId, mpsc::UnboundedSender<ExecutionId>>>>);

impl Watchers {
    fn add(&self, instance: InstanceId, disturbed: mpsc::UnboundedSender<ExecutionId>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, it| !it.is_closed());
        all.insert(instance, disturbed);
    }

    fn tell(&self, instance: InstanceId, fences: &[Fence], beat: &BeatRecord) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&instance).into_iter().for_each(|disturbed| tell(disturbed, fences, beat));
    }
}

/// Tells the keeper at which leases it should look.
fn tell(disturbed: &mpsc::UnboundedSender<ExecutionId>, fences: &[Fence], beat: &BeatRecord) {
    let looked = fences.iter().zip(&beat.leases).filter(|(_, renewed)| is_news(renewed));
    let told = looked.map(|(fence, _)| fence.execution).chain(beat.disturbed.iter().copied());
    told.for_each(|id| _ = disturbed.send(id));
}

/// What was said of a heartbeat as a whole, as an answer to each of its leases: only that the worker is not known loses them.
fn about_all(failure: Failure) -> Failure {
    match failure {
        Failure::Rejected(Rejection::WorkerUnknown { .. } | Rejection::WorkerDead { .. }) => failure,
        Failure::Rejected(rejection) => {
            Failure::Refused { code: rejection.code(), detail: rejection.to_string() }
        }
        failure => failure,
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
