//! Child executions: started once, waited for without holding a lease.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use ff_core::attempt::TaskError;
use ff_core::commands::{Drift, RecordSteps, StartChild as Start, Suspend};
use ff_core::payload::Slot;
use ff_core::state::Reason;
use ff_core::step::StepKind;
use ff_core::suspension::Condition;
use ff_core::{Command, Execution, ExecutionId, PublicState, Reply};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::journal::Call;
use super::{new_step, odd, read};
use crate::error::NotCompleted;
use crate::{Context, Submission, TaskFailure};

/// How many children one suspension waits for; conditions have a limit.
const AT_ONCE: usize = 200;

/// What starting a child records.
#[derive(Deserialize)]
struct Started {
    child: ExecutionId,
}

/// What the end of a child records. It is kept with its parent, so that the child may be removed.
#[derive(Serialize, Deserialize)]
struct End {
    child: ExecutionId,
    state: PublicState,
    reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

impl Context {
    /// Runs another execution and waits for its result without holding a worker. It is started once, however often
    /// this handler runs, in the namespace, lane and partition of this one, and is cancelled if this one ends first.
    /// What happens to the handler meanwhile is told at [`suspend`](Context::suspend).
    ///
    /// # Errors
    /// A fatal failure with the code `child_failed` if it did not complete, also if it was cancelled;
    /// [`outcome`](ChildCall::outcome) tells that apart from other failures.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{Context, Worker};
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let worker = Worker::new(&fabric)
    ///     .on("double", |_: Context, n: u64| async move { Ok(n * 2) })
    ///     .on("sum", |ctx: Context, (a, b): (u64, u64)| async move {
    ///         let first = ctx.start_child("double", &a).await?;
    ///         let second = ctx.start_child("double", &b).with(|it| it.priority(5)).await?;
    ///         let doubled: Vec<u64> = ctx.join(vec![first, second]).await?;
    ///         let quadrupled: u64 = ctx.child("double", &(doubled[0] + doubled[1])).await?;
    ///         Ok(quadrupled)
    ///     });
    /// let run = fabric.submit("sum", &(1, 2)).await?;
    /// worker.run_until(async { assert_eq!(run.result::<u64>().await.unwrap(), 12) }).await?;
    /// # Ok(()) }
    /// ```
    pub fn child<T>(&self, kind: &str, input: &(impl Serialize + ?Sized)) -> ChildCall<'_, T> {
        ChildCall { start: self.start_child(kind, input), result: PhantomData }
    }

    /// Starts another execution and goes on; see [`child`](Context::child) and [`join`](Context::join).
    pub fn start_child(&self, kind: &str, input: &(impl Serialize + ?Sized)) -> StartChild<'_> {
        let submission = Submission::new(kind, input).lane(self.lane());
        StartChild { ctx: self, kind: kind.to_owned(), submission }
    }

    /// Waits for the end of several children and returns their results in the order given.
    ///
    /// # Errors
    /// As [`child`](Context::child), for the first that did not complete.
    pub async fn join<T: DeserializeOwned>(&self, children: Vec<Child>) -> Result<Vec<T>, TaskFailure> {
        let outcomes = self.outcomes(children).await?;
        outcomes.into_iter().map(|outcome| outcome.map_err(child_failed)).collect()
    }

    /// As [`join`](Context::join), where a child that did not complete is one of the results.
    ///
    /// # Errors
    /// `unexpected_result` if the result of a child is no `T`.
    pub async fn outcomes<T: DeserializeOwned>(
        &self,
        children: Vec<Child>,
    ) -> Result<Vec<Result<T, NotCompleted>>, TaskFailure> {
        let mut ends = Vec::with_capacity(children.len());
        let (mut open, mut records) = (Vec::new(), Vec::new());
        for child in &children {
            match self.end_of(child, &mut records).await? {
                Some(end) => ends.push(end),
                None => open.push(child.id),
            }
        }
        if !records.is_empty() {
            let _turn = self.journal().turn.read().await;
            self.store_all(records).await?;
        }
        if !open.is_empty() {
            open.truncate(AT_ONCE);
            let condition = Condition::AllOf(open.into_iter().map(Condition::Child).collect());
            let suspend = Suspend {
                reason: Reason::WaitingForChild,
                ..Suspend::new(self.running().fence(), condition)
            };
            return Err(self.park(vec![suspend.into()]).await);
        }
        ends.into_iter().map(outcome).collect()
    }

    /// The end of a child, which is to be recorded when it is first seen; nothing if it has not ended.
    async fn end_of(&self, child: &Child, records: &mut Vec<Command>) -> Result<Option<End>, TaskFailure> {
        let Call { place, recorded } = self.journal().call(&child.kind, StepKind::Child)?;
        if let Some(step) = recorded {
            return read(step).map(Some);
        }
        let execution = self.fabric().get(child.id).await?;
        let Some(end) = execution.end() else { return Ok(None) };
        let result = match end.result_bytes {
            Some(_) => {
                self.fabric().link().payload(child.id, Slot::Result).await.map_err(|it| self.refused(it))?
            }
            None => None,
        };
        let result = result.map(|it| serde_json::from_slice(&it.bytes)).transpose().map_err(|error| {
            let problem = format!("the result of child {} is not JSON: {error}", child.id);
            TaskFailure::fatal(problem).code("unexpected_result")
        })?;
        let end =
            End { child: child.id, state: end.state, reason: end.reason, error: end.error.clone(), result };
        let steps = vec![new_step(place, StepKind::Child, lasted(&execution), serde_json::to_vec(&end)?)];
        records.push(RecordSteps { fence: self.running().fence(), steps, drift: Drift::default() }.into());
        Ok(Some(end))
    }
}

fn lasted(child: &Execution) -> Duration {
    let ended_at = child.end().map_or(child.spec.created_at, |end| end.at);
    Duration::from_millis((ended_at - child.spec.created_at).max(0).unsigned_abs())
}

fn outcome<T: DeserializeOwned>(end: End) -> Result<Result<T, NotCompleted>, TaskFailure> {
    let End { child: execution, state, reason, error, result } = end;
    if state != PublicState::Completed {
        return Ok(Err(NotCompleted { execution, state, reason, error }));
    }
    let text = result.as_ref().map_or("null", |it| it.get());
    serde_json::from_str(text).map(Ok).map_err(|error| {
        let wanted = std::any::type_name::<T>();
        TaskFailure::fatal(format!("the result of child {execution} is not a {wanted}: {error}"))
            .code("unexpected_result")
    })
}

/// What the parent fails with unless it says otherwise. The child has had its own attempts.
fn child_failed(ending: NotCompleted) -> TaskFailure {
    TaskFailure::fatal(ending).code("child_failed")
}

/// A child that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    id: ExecutionId,
    kind: String,
}

impl Child {
    pub fn id(&self) -> ExecutionId {
        self.id
    }
}

/// A child to be started, which is started when it is awaited.
#[derive(Debug)]
#[must_use = "a child is started when it is awaited"]
pub struct StartChild<'a> {
    ctx: &'a Context,
    kind: String,
    submission: Submission,
}

impl StartChild<'_> {
    /// Refines how it runs: lane, priority, attempts, timeouts, tags and whatever else a submission can say.
    pub fn with(mut self, refine: impl FnOnce(Submission) -> Submission) -> Self {
        self.submission = refine(self.submission);
        self
    }

    async fn start(self) -> Result<Child, TaskFailure> {
        let StartChild { ctx, kind, submission } = self;
        let Call { place, recorded } = ctx.journal().call(&kind, StepKind::Child)?;
        if let Some(step) = recorded {
            return Ok(Child { id: read::<Started>(step)?.child, kind });
        }
        let fabric = ctx.fabric();
        let id = fabric.link().new_child_execution_id(fabric.wall(), ctx.id());
        let submission = submission.namespace(ctx.namespace());
        let create =
            submission.member(fabric, id).map_err(|error| TaskFailure::fatal(&error).code(error.code()))?;
        // Sent again after a lost answer, it must find itself.
        let create = ff_core::commands::Create { fresh: false, ..create };
        let _turn = ctx.journal().turn.read().await;
        let reply = ctx.store(Start { fence: ctx.running().fence(), create, step: Some(place) }).await?;
        match reply {
            Reply::Created { execution, .. } => Ok(Child { id: execution, kind }),
            reply => Err(odd(&reply)),
        }
    }
}

impl<'a> IntoFuture for StartChild<'a> {
    type Output = Result<Child, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

/// A child to be started and waited for, when this is awaited.
#[must_use = "a child is started when it is awaited"]
#[derive(Debug)]
pub struct ChildCall<'a, T> {
    start: StartChild<'a>,
    result: PhantomData<fn() -> T>,
}

impl<'a, T: DeserializeOwned + Send + 'a> ChildCall<'a, T> {
    /// Refines how it runs; see [`StartChild::with`].
    pub fn with(mut self, refine: impl FnOnce(Submission) -> Submission) -> Self {
        self.start = self.start.with(refine);
        self
    }

    /// Its result, or how it ended without one.
    ///
    /// # Errors
    /// `unexpected_result` if its result is no `T`.
    pub async fn outcome(self) -> Result<Result<T, NotCompleted>, TaskFailure> {
        let ctx = self.start.ctx;
        let child = self.start.await?;
        let mut outcomes = ctx.outcomes(vec![child]).await?;
        outcomes.pop().ok_or_else(|| TaskFailure::retryable("a child has no outcome").code("internal"))
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for ChildCall<'a, T> {
    type Output = Result<T, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.outcome().await?.map_err(child_failed) })
    }
}
