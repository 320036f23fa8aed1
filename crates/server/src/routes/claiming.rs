//! How workers get tasks and keep them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ff_api::Problem;
use ff_api::record::{self, BeatRecord, Renewed, TaskRecord};
use ff_api::task::Task as TaskDoc;
use ff_api::time::Time;
use ff_api::worker::{Beat, Beating, Claimed, Claiming, RenewedLease};
use ff_core::commands::{Heartbeat, Poll, may_claim};
use ff_core::execution::Fence;
use ff_core::reply::Renewal;
use ff_core::{ExecutionId, InstanceId, Reply};
use ff_engine::{Failure, Task};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::{App, Shared, problem};
use crate::body::{Body, Path};

/// How many tasks one claim hands out at most.
const TASKS_MAX: u32 = 1_000;
/// How soon a heartbeat that may wait is answered if there is something to act on from its start.
const ACT_AGAIN: Duration = Duration::from_millis(250);
/// How long a heartbeat that waits lets pass before it looks again at what has become of leases.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Claim tasks; waits for the first if there are none.
#[utoipa::path(
    post, path = "/v1/workers/{id}/claim", tag = "workers", request_body = Claiming,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "The tasks; none if there was nothing in time", body = Claimed), Problems)
)]
pub fn claim(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<InstanceId>,
    Body(it): Body<Claiming>,
) -> impl Future<Output = Result<Response, Refusal>> + Send {
    // What was asked for is gone when the wait begins: thousands may wait, each with as little as possible.
    let asked = Box::pin(Asked::read(app.clone(), caller, id, it));
    async move {
        let Asked { poll, max, wait, numbered } = asked.await?;
        let Some(numbered) = numbered else {
            let tasks = claimed(&app, poll, max, wait).await?;
            return Ok(answer(wants, &tasks));
        };
        let (number, caller) = *numbered;
        let claimant = app.claims.of(id);
        // Whoever asks for the same again waits here until the first answer is known.
        let _turn = claimant.turn.lock().await;
        if let Some(tasks) = claimant.earlier(number) {
            // They were claimed with a token that sees more, perhaps.
            for task in tasks.iter() {
                caller.may_in(&task.execution.spec.namespace)?;
            }
            return Ok(answer(wants, &tasks));
        }
        let tasks = claimed(&app, poll, max, wait).await?;
        let tasks = claimant.hand_out(&app.engine, number, tasks);
        Ok(answer(wants, &tasks))
    }
}

/// What a claim asks for.
struct Asked {
    poll: Arc<Poll>,
    max: usize,
    wait: Duration,
    /// The caller's number for it, if it may ask for the answer again.
    numbered: Option<Box<(u64, Caller)>>,
}

impl Asked {
    async fn read(app: Shared, caller: Caller, id: InstanceId, it: Claiming) -> Result<Asked, Refusal> {
        caller.may(May::Work)?;
        let max = match it.max.unwrap_or(1) {
            max @ 1..=TASKS_MAX => max as usize,
            max => {
                return Err(Problem::invalid("max", format!("is {max}; allowed are 1 to {TASKS_MAX}")).into());
            }
        };
        let wait = app.patience("wait_ms", it.wait_ms.map_or(0, |it| it.0))?;
        app.check_worker(&caller, id).await?;
        let poll = Arc::new(narrowed(it.poll(id)?, &caller)?);
        Ok(Asked { poll, max, wait, numbered: it.poll.map(|number| Box::new((number, caller))) })
    }
}

async fn claimed(app: &Shared, poll: Arc<Poll>, max: usize, wait: Duration) -> Result<Vec<Task>, Refusal> {
    // The engine ends the wait; a server that stops ends it earlier, and what was claimed meanwhile goes back.
    let instance = poll.instance;
    let polling = app.engine.poll(poll, max, wait);
    let tasks = app.wait_for(wait + Duration::from_secs(5), polling).await.transpose()?.unwrap_or_default();
    // One that gets no work for another reason than that there is none hears of it. Most wait for work that there is none
    // of, and cost no look into the store.
    if tasks.is_empty() && !app.engine.knows_active(instance).await {
        let known = app.engine.worker(instance).await?;
        may_claim(instance, known.as_deref()).map_err(|it| Problem::from(&it))?;
    }
    Ok(tasks)
}

/// A poll that sees what its token lets it see.
fn narrowed(mut poll: Poll, caller: &Caller) -> Result<Poll, Problem> {
    for namespace in &poll.namespaces {
        caller.may_in(namespace)?;
    }
    if poll.namespaces.is_empty() {
        poll.namespaces = caller.namespaces().to_vec();
    }
    Ok(poll)
}

fn answer(wants: Wants, tasks: &[Task]) -> Response {
    wants.answer(
        || Claimed {
            tasks: tasks
                .iter()
                .map(|it| TaskDoc::of(&it.execution, &it.input, &it.steps, &it.signals))
                .collect(),
        },
        || record::Tasks {
            tasks: tasks
                .iter()
                .map(|it| TaskRecord {
                    execution: it.execution.clone(),
                    input: it.input.clone(),
                    steps: it.steps.clone(),
                    signals: it.signals.clone(),
                })
                .collect(),
        },
    )
}

/// Show that a worker lives, renew its leases, and hear of cancels.
#[utoipa::path(
    post, path = "/v1/workers/{id}/heartbeat", tag = "workers", request_body = Beating,
    params(("id" = uuid::Uuid, Path)),
    responses((status = 200, description = "What became of the leases", body = Beat), Problems)
)]
pub async fn heartbeat(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Path(id): Path<InstanceId>,
    Body(it): Body<Beating>,
) -> Result<Response, Refusal> {
    caller.may(May::Work)?;
    super::batch::check(&app, "leases", it.leases.len())?;
    let wait = app.patience("wait_ms", it.wait_ms.map_or(0, |it| it.0))?;
    app.check_worker(&caller, id).await?;
    let fences: Vec<Fence> = it.leases.into_iter().map(Into::into).collect();
    // Only what was handed to this worker here is confirmed by it; that waits for nothing.
    app.claims.confirm(id, fences.iter().copied());
    let leases = Leases::of(&app, &caller, fences).await;
    // Watched before anything is renewed, so that nothing falls between.
    let mut disturbed = (!wait.is_zero()).then(|| app.engine.watch_leases(id));
    let mode = match app.run(Heartbeat { instance: id }).await? {
        Reply::Worker { mode, .. } => mode.word().to_owned(),
        reply => return Err(odd_reply(&reply).into()),
    };
    let mut renewed = leases.renew(&app).await;
    let mut news = Vec::<ExecutionId>::new();
    if let Some(disturbed) = disturbed.as_mut() {
        // What the worker should act on is told soon. It may have been told before, and whoever asks for it again and
        // again does so a few times a second.
        let asked_to_act = renewed.iter().any(|it| !matches!(it, Ok(renewal) if renewal.cancel.is_none()));
        let wait = if asked_to_act { wait.min(ACT_AGAIN) } else { wait };
        news = wait_for_news(&app, id, disturbed, wait).await;
        // What is known by now is told at once.
        leases.look_again(&app, &news, &mut renewed).await;
    }
    let lease = |(fence, renewal): (&Fence, &Result<Renewal, Problem>)| {
        let until = renewal.as_ref().ok();
        RenewedLease {
            execution: fence.execution,
            expires_at: until.map(|it| Time(it.expires_at)),
            cancel: until.and_then(|it| it.cancel.as_ref()).map(Into::into),
            problem: renewal.as_ref().err().cloned(),
        }
    };
    Ok(wants.answer(
        || Beat {
            mode: mode.clone(),
            leases: leases.fences.iter().zip(&renewed).map(lease).collect(),
            disturbed: news.clone(),
        },
        || BeatRecord {
            mode: mode.clone(),
            leases: renewed
                .iter()
                .map(|it| match it {
                    Ok(renewal) => Renewed::Until(renewal.clone()),
                    Err(problem) => Renewed::Refused(problem.clone()),
                })
                .collect(),
            disturbed: news.clone(),
        },
    ))
}

/// Waits for leases that a worker should look at. What it has ended itself, at another server, is no news to it.
async fn wait_for_news(
    app: &App,
    instance: InstanceId,
    disturbed: &mut UnboundedReceiver<ExecutionId>,
    wait: Duration,
) -> Vec<ExecutionId> {
    let mut unlooked = Vec::new();
    let news = app.wait_for(wait, async {
        while let Some(first) = disturbed.recv().await {
            unlooked.push(first);
            while let Ok(more) = disturbed.try_recv() {
                unlooked.push(more);
            }
            // What cannot be looked at may be news.
            if let Ok(records) = app.engine.get_all(&unlooked).await {
                unlooked.retain(|id| records.get(id).is_none_or(|it| it.concerns(instance)));
            }
            if !unlooked.is_empty() {
                return;
            }
            // Thousands may end one after the other; they are looked at together.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    });
    news.await;
    while let Ok(more) = disturbed.try_recv() {
        unlooked.push(more);
    }
    unlooked
}

/// The leases that a worker speaks of, and those of them that its token does not see. One that is gone is told for itself:
/// it must not cost the worker all others.
struct Leases {
    fences: Vec<Fence>,
    unseen: HashMap<ExecutionId, Problem>,
}

impl Leases {
    async fn of(app: &App, caller: &Caller, fences: Vec<Fence>) -> Leases {
        let ids: Vec<ExecutionId> = fences.iter().map(|fence| fence.execution).collect();
        let unseen = app.check_executions(caller, &ids).await;
        Leases { fences, unseen }
    }

    fn seen(&self) -> impl Iterator<Item = Fence> + '_ {
        self.fences.iter().copied().filter(|it| !self.unseen.contains_key(&it.execution))
    }

    async fn renew(&self, app: &App) -> Vec<Result<Renewal, Problem>> {
        let mut renewed = app.engine.renew(self.seen().collect()).await.into_iter();
        let each = self.fences.iter().map(|fence| match self.unseen.get(&fence.execution) {
            Some(problem) => Err(problem.clone()),
            None => renewed.next().unwrap_or(Err(Failure::ShuttingDown)).map_err(problem),
        });
        each.collect()
    }

    /// Renews those that there is news about; what was said of the others stands.
    async fn look_again(&self, app: &App, news: &[ExecutionId], renewed: &mut [Result<Renewal, Problem>]) {
        let news: HashSet<&ExecutionId> = news.iter().collect();
        let again =
            |fence: &Fence| news.contains(&fence.execution) && !self.unseen.contains_key(&fence.execution);
        let (places, fences): (Vec<usize>, Vec<Fence>) =
            self.fences.iter().copied().enumerate().filter(|(_, fence)| again(fence)).unzip();
        if fences.is_empty() {
            return;
        }
        for (place, renewal) in places.into_iter().zip(app.engine.renew(fences).await) {
            renewed[place] = renewal.map_err(problem);
        }
    }
}
