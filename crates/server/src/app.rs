//! What all routes share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use ff_api::Problem;
use ff_api::flow::Making;
use ff_core::limits::Limits;
use ff_core::{Command, Execution, ExecutionId, Flow, FlowId, InstanceId, Ms, Rejection, Reply};
use ff_engine::{Engine, Failure};
use tokio::sync::watch;

use crate::access::Caller;
use crate::claims::Claims;
use crate::config::Config;
use crate::metrics::Requests;
use crate::rate::Rates;
use crate::request_id::RequestIds;

#[derive(Debug)]
pub struct App {
    pub engine: Engine,
    pub config: Config,
    pub claims: Claims,
    pub phase: watch::Receiver<Phase>,
    pub live: Live,
    pub requests: Requests,
    pub rates: Rates,
    pub request_ids: RequestIds,
}

/// Where a server stands between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    /// It says that it is not ready, and serves all the same: whoever sends it requests has to hear of it first.
    Leaving,
    /// No connection is accepted; requests that wait are answered.
    Stopping,
}

/// How many requests are open that may stay so for long.
#[derive(Debug, Default)]
pub struct Live {
    pub long_polls: AtomicUsize,
    pub streams: AtomicUsize,
}

pub type Shared = Arc<App>;

impl App {
    pub fn now(&self) -> Ms {
        self.config.clock.now()
    }

    /// How long a request may wait that asked for so many milliseconds.
    pub fn patience(&self, field: &'static str, ms: Ms) -> Result<Duration, Problem> {
        let max = self.engine.limits().horizon_ms_max;
        match u64::try_from(ms) {
            Ok(asked) if ms <= max => Ok(Duration::from_millis(asked).min(self.config.wait_max)),
            _ => Err(Problem::invalid(field, format!("is {ms} ms; allowed are 0 to {max}"))),
        }
    }

    /// Carries out one command.
    pub async fn run(&self, command: impl Into<Command>) -> Result<Reply, Problem> {
        self.engine.execute(command).await.map_err(problem)
    }

    /// Waits for something, but no longer than `wait`, and not once the server stops.
    pub async fn wait_for<T>(&self, wait: Duration, what: impl Future<Output = T>) -> Option<T> {
        let _open = Counted::new(&self.live.long_polls);
        tokio::select! {
            biased;
            value = what => Some(value),
            () = tokio::time::sleep(wait) => None,
            () = self.stopping() => None,
        }
    }

    /// Ends when the server stops.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut phase = self.phase.clone();
        async move {
            // Without the one who says so, it has stopped.
            let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
        }
    }

    /// An execution that the caller may see. What it may not see is not there.
    pub async fn execution(&self, caller: &Caller, id: ExecutionId) -> Result<Arc<Execution>, Problem> {
        let found = self.engine.get(id).await.map_err(problem)?;
        found
            .filter(|it| caller.sees(&it.spec.namespace))
            .ok_or_else(|| not_found("execution", id.to_string()))
    }

    /// Checks that the caller may touch an execution; free of cost if it may touch all.
    pub async fn check_execution(&self, caller: &Caller, id: ExecutionId) -> Result<(), Problem> {
        if caller.sees_all() {
            return Ok(());
        }
        self.execution(caller, id).await.map(drop)
    }

    /// Those of the executions that the caller may not touch, and why; free of cost if it may touch all.
    pub async fn unseen(&self, caller: &Caller, ids: &[ExecutionId]) -> HashMap<ExecutionId, Problem> {
        if caller.sees_all() || ids.is_empty() {
            return HashMap::new();
        }
        let found = self.engine.get_many(ids).await;
        let check = |id: &ExecutionId| match &found {
            Ok(found) if found.get(id).is_some_and(|it| caller.sees(&it.spec.namespace)) => None,
            Ok(_) => Some((*id, not_found("execution", id.to_string()))),
            Err(failure) => Some((*id, problem(failure.clone()))),
        };
        ids.iter().filter_map(check).collect()
    }

    /// Checks that the caller may touch a worker: who is limited to namespaces has its own workers and no others.
    pub async fn check_worker(&self, caller: &Caller, id: InstanceId) -> Result<(), Problem> {
        if caller.sees_all() {
            return Ok(());
        }
        match self.engine.worker(id).await.map_err(problem)? {
            Some(worker) if worker.owner.as_deref() != caller.owner() => {
                Err(not_found("worker", id.to_string()))
            }
            _ => Ok(()),
        }
    }

    pub async fn flow(&self, caller: &Caller, id: FlowId) -> Result<Arc<Flow>, Problem> {
        let found = self.engine.flow(id).await.map_err(problem)?;
        found.filter(|it| caller.sees(&it.spec.namespace)).ok_or_else(|| not_found("flow", id.to_string()))
    }

    pub async fn check_flow(&self, caller: &Caller, id: FlowId) -> Result<(), Problem> {
        if caller.sees_all() {
            return Ok(());
        }
        self.flow(caller, id).await.map(drop)
    }
}

impl Making for App {
    fn limits(&self) -> &Limits {
        self.engine.limits()
    }

    fn member(&self, flow: FlowId) -> ExecutionId {
        self.engine.new_member_id(self.now(), flow)
    }

    fn child(&self, flow: FlowId) -> FlowId {
        self.engine.new_child_id(self.now(), flow)
    }
}

/// Counts something for as long as it lives.
#[derive(Debug)]
pub struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub fn new(count: &'a AtomicUsize) -> Counted<'a> {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

pub fn not_found(what: &'static str, id: String) -> Problem {
    Problem::from(&Rejection::NotFound { what: what.into(), id })
}

/// What went wrong, told to the outside: nothing of the inside leaks.
pub fn problem(failure: Failure) -> Problem {
    let (status, title) = match &failure {
        Failure::Rejected(rejection) => return Problem::from(rejection),
        Failure::Busy { .. } => (429, "Too much is waiting"),
        Failure::Unavailable(error) => {
            tracing::warn!(%error, "the store is unavailable");
            let detail = "the store cannot be reached at the moment; nothing was changed, try again";
            return Problem::new(503, failure.code(), "Unavailable", detail).retryable();
        }
        Failure::OutcomeUnknown => (504, "Outcome unknown"),
        Failure::Internal(error) => {
            tracing::error!(%error, "a command failed inside");
            let detail = "something is wrong inside the server; nothing was changed, its log says more";
            return Problem::new(500, failure.code(), "Internal error", detail);
        }
        Failure::Refused { .. } => (400, "Not let pass"),
        Failure::ShuttingDown => (503, "Shutting down"),
    };
    let mut told = Problem::new(status, failure.code(), title, failure.to_string());
    if let Failure::Busy { waiting, max } = failure {
        told.rejection = Some(serde_json::json!({ "waiting": waiting, "max": max }));
    }
    if failure.is_retryable() { told.retryable() } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_answered_with_the_status_that_stands_beside_its_code() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        let text = std::fs::read_to_string(file).unwrap();
        for failure in [
            Failure::Busy { waiting: 2, max: 1 },
            Failure::Unavailable("away".to_owned()),
            Failure::OutcomeUnknown,
            Failure::Internal("odd".to_owned()),
            Failure::ShuttingDown,
        ] {
            let told = problem(failure);
            let row = format!("| `{}` | {} |", told.code, told.status);
            assert!(text.contains(&row), "docs/errors.md has no {row}");
        }
    }
}
