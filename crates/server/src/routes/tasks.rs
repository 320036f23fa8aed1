//! What workers say about their tasks. Every route takes many at once; each is answered for itself, in order.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ff_api::flow::{Drawing, Expanding};
use ff_api::mail::OpenedDoc;
use ff_api::submit::Submitted;
use ff_api::task::{
    Completion, Completions, Delaying, Delayings, Failing, Failings, Frames, FramesBatch, OpeningWaitpoint,
    Progressing, Progressings, Releasing, Releasings, StartingChild, StepsDone, StepsDones, Suspending,
    Suspendings,
};
use ff_api::time::Time;
use ff_api::{Problem, record};
use ff_core::commands::{Release, Report};
use ff_core::rejection::Invalid;
use ff_core::{Command, ExecutionId, Namespace, Rejection, Reply};

use super::batch::{self, Outcomes};
use super::reading::document;
use crate::access::{Caller, May};
use crate::answer::{Problems, Refusal, Wants, odd_reply};
use crate::app::{Shared, not_found};
use crate::body::Body;

/// Carries out what could be read of a batch.
async fn carry_out(
    app: &Shared,
    caller: &Caller,
    wants: Wants,
    commands: Vec<(ExecutionId, Result<Command, Invalid>)>,
) -> Result<Response, Refusal> {
    caller.may(May::Work)?;
    batch::check(app, "tasks", commands.len())?;
    let ids: Vec<ExecutionId> = commands.iter().map(|(execution, _)| *execution).collect();
    let unseen = app.check_executions(caller, &ids).await;
    let check = |(execution, command): (ExecutionId, Result<Command, Invalid>)| {
        let command = command.map_err(|invalid| Problem::from(&Rejection::Invalid(invalid)))?;
        unseen.get(&execution).map_or(Ok(command), |problem| Err(problem.clone()))
    };
    let checked = commands.into_iter().map(check).collect();
    Ok(batch::answer(wants, batch::run(app, checked).await))
}

macro_rules! routes_of_tasks {
    ($($(#[$doc:meta])* $name:ident $path:literal $batch:ident |$app:ident, $task:ident: $item:ident| $command:expr;)+) => { $(
        $(#[$doc])*
        #[utoipa::path(
            post, path = $path, tag = "tasks", request_body = $batch,
            responses((status = 200, description = "One outcome each, in order", body = Outcomes), Problems)
        )]
        pub async fn $name(
            State(app): State<Shared>,
            caller: Caller,
            wants: Wants,
            Body(batch): Body<$batch>,
        ) -> Result<Response, Refusal> {
            let $app = &app;
            let command = |$task: $item| -> Result<Command, Invalid> { $command };
            let commands = batch.tasks.into_iter().map(|task| (task.lease.execution, command(task)));
            carry_out(&app, &caller, wants, commands.collect()).await
        }
    )+ };
}

routes_of_tasks! {
    /// Complete tasks.
    complete "/v1/tasks/complete" Completions |_app, task: Completion| task.command().map(Command::from);
    /// Report tasks as failed; they are tried again as their policy says.
    fail "/v1/tasks/fail" Failings |app, task: Failing| Ok(task.command(app.engine.random()).into());
    /// Put tasks off without spending an attempt.
    delay "/v1/tasks/delay" Delayings |_app, task: Delaying| task.command().map(Command::from);
    /// Give tasks back without spending an attempt.
    release "/v1/tasks/release" Releasings |_app, task: Releasing| Ok(Release::from(task).into());
    /// Say how far tasks are.
    progress "/v1/tasks/progress" Progressings |_app, task: Progressing| Ok(Report::from(task).into());
    /// Suspend tasks until something happens outside.
    suspend "/v1/tasks/suspend" Suspendings |_app, task: Suspending| task.command().map(Command::from);
    /// Record steps that are done.
    steps "/v1/tasks/steps" StepsDones |_app, task: StepsDone| task.command().map(Command::from);
    /// Append output.
    frames "/v1/tasks/frames" FramesBatch |_app, task: Frames| task.command().map(Command::from);
}

/// Open a waitpoint before suspending; the answer has the token for it.
#[utoipa::path(
    post, path = "/v1/tasks/waitpoint", tag = "tasks", request_body = OpeningWaitpoint,
    responses((status = 201, description = "Open", body = OpenedDoc), Problems)
)]
pub async fn waitpoint(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(it): Body<OpeningWaitpoint>,
) -> Result<Response, Refusal> {
    caller.may(May::Work)?;
    app.check_execution(&caller, it.lease.execution).await?;
    let opened = app.engine.open_waitpoint(it.command()?).await?;
    let (waitpoint, expires_at, token) = (opened.id, opened.expires_at, opened.token.reveal().to_owned());
    Ok(wants.answer_with(
        StatusCode::CREATED,
        || OpenedDoc { waitpoint, expires_at: expires_at.map(Time), token: token.clone() },
        || record::Opened { waitpoint, expires_at, token: token.clone() },
    ))
}

/// Start an execution that belongs to a running task and is cancelled with it.
#[utoipa::path(
    post, path = "/v1/tasks/child", tag = "tasks", request_body = StartingChild,
    responses((status = 201, description = "Started, now or before", body = Submitted), Problems)
)]
pub async fn child(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(it): Body<StartingChild>,
) -> Result<Response, Refusal> {
    caller.may(May::Work)?;
    app.check_execution(&caller, it.lease.execution).await?;
    let (parent, now) = (it.lease.execution, app.now());
    let new_id = |_: &Namespace, _: Option<&str>| app.engine.new_child_execution_id(now, parent);
    let command = it.command(app.engine.limits(), new_id)?;
    caller.may_in(&command.create.namespace)?;
    let reply = app.run(command).await?;
    match reply {
        Reply::Created { execution, existing } => Ok(wants.answer_with(
            StatusCode::CREATED,
            || Submitted { id: execution, existing },
            || Reply::Created { execution, existing },
        )),
        reply => Err(odd_reply(&reply).into()),
    }
}

/// Complete a task and add nodes to its flow in the same step.
#[utoipa::path(
    post, path = "/v1/tasks/expand", tag = "tasks", request_body = Expanding,
    responses((status = 200, description = "Completed", body = super::reading::TaskEnded), Problems)
)]
pub async fn expand(
    State(app): State<Shared>,
    caller: Caller,
    wants: Wants,
    Body(it): Body<Expanding>,
) -> Result<Response, Refusal> {
    caller.may(May::Work)?;
    let execution = app.execution(&caller, it.lease.execution).await?;
    let flow = execution.flow().ok_or_else(|| not_found("flow of", execution.id.to_string()))?;
    let namespace = execution.spec.namespace.clone();
    let drawing = Drawing { making: &*app, flow, namespace, fresh: true };
    let command = it.command(&drawing)?;
    let reply = app.run(command).await?;
    Ok(wants.reply(&reply, document))
}
