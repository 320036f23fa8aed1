//! What the log says of the engine's work: which command, for whom. Nothing is worked out unless somebody listens.

use ff_core::commands::{Poll, To};
use ff_core::execution::Fence;
use ff_core::{Command, Execution, ExecutionId, FlowId, InstanceId};
use tracing::field::{Empty, display};
use tracing::{Level, Span, debug, debug_span};

use crate::engine::Task;

/// Whom a command concerns, as far as it says so itself.
enum Subject {
    Lease(Fence),
    Execution(ExecutionId),
    Flow(FlowId),
    Worker(InstanceId),
    None,
}

fn subject(command: &Command) -> Subject {
    use Command as C;
    use Subject::{Execution, Flow, Lease, Worker};
    match command {
        C::Create(it) => Execution(it.id),
        C::Complete(it) => Lease(it.fence),
        C::Fail(it) => Lease(it.fence),
        C::Delay(it) => Lease(it.fence),
        C::Release(it) => Lease(it.fence),
        C::Report(it) => Lease(it.fence),
        C::Expand(it) => Lease(it.fence),
        C::Suspend(it) => Lease(it.fence),
        C::OpenWaitpoint(it) => Lease(it.fence),
        C::RecordSteps(it) => Lease(it.fence),
        C::StartChild(it) => Lease(it.fence),
        C::Append(it) => Lease(it.fence),
        C::Cancel(it) => Execution(it.execution),
        C::Hold(it) => Execution(it.execution),
        C::Unhold(it) => Execution(it.execution),
        C::SetPriority(it) => Execution(it.execution),
        C::Revoke(it) => Execution(it.execution),
        C::Replay(it) => Execution(it.execution),
        C::Tag(it) => Execution(it.execution),
        C::Remove(it) => Execution(it.execution),
        C::Resume(it) => Execution(it.execution),
        C::SendSignal(it) => Execution(match &it.to {
            To::Execution(id) => *id,
            to => to.execution(),
        }),
        C::IssueToken(it) => Execution(it.waitpoint.execution),
        C::RegisterWorker(it) => Worker(it.instance),
        C::Heartbeat(it) => Worker(it.instance),
        C::DrainWorker(it) => Worker(it.instance),
        C::BuryWorker(it) => Worker(it.instance),
        C::CreateFlow(it) => Flow(it.id),
        C::AddNodes(it) => Flow(it.flow),
        C::AddEdges(it) => Flow(it.flow),
        C::Seal(it) => Flow(it.flow),
        C::SetGroupPolicy(it) => Flow(it.flow),
        C::CancelFlow(it) => Flow(it.flow),
        C::TagFlow(it) => Flow(it.flow),
        _ => Subject::None,
    }
}

/// A span for one command.
pub(crate) fn command(command: &Command) -> Span {
    let span = debug_span!(
        "command",
        name = command.name(),
        execution = Empty,
        attempt = Empty,
        flow = Empty,
        instance = Empty
    );
    if !span.is_disabled() {
        match subject(command) {
            Subject::Lease(fence) => {
                span.record("execution", display(fence.execution)).record("attempt", fence.attempt);
            }
            Subject::Execution(id) => {
                span.record("execution", display(id));
            }
            Subject::Flow(id) => {
                span.record("flow", display(id));
            }
            Subject::Worker(id) => {
                span.record("instance", display(id));
            }
            Subject::None => {}
        }
    }
    span
}

/// Commands that travel together have a line each instead of a span each.
pub(crate) fn together(commands: &[Command]) {
    if tracing::enabled!(Level::DEBUG) {
        for it in commands {
            command(it).in_scope(|| debug!("sent with others"));
        }
    }
}

/// Tasks that a worker gets.
pub(crate) fn claimed(poll: &Poll, tasks: &[Task]) {
    if tracing::enabled!(Level::DEBUG) {
        for Task { execution: it, .. } in tasks {
            debug!(
                execution = %it.id,
                attempt = it.attempt_number(),
                flow = it.flow().map(display),
                kind = %it.spec.kind,
                worker = %poll.worker,
                instance = %poll.instance,
                "claimed"
            );
        }
    }
}

/// An execution whose end is stored.
pub(crate) fn ended(it: &Execution) {
    if tracing::enabled!(Level::DEBUG) {
        debug!(
            execution = %it.id,
            attempt = it.attempt_number(),
            flow = it.flow().map(display),
            kind = %it.spec.kind,
            state = it.public_state().word(),
            reason = it.reason().word(),
            "ended"
        );
    }
}
