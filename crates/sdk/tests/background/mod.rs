//! A worker that runs beside a test.

use std::time::Duration;

use flowfabric::{Backoff, Error, Jitter, Run, Stopped, Worker};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Background {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Stopped, Error>>,
}

pub fn start(worker: Worker) -> Background {
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move { drop(stopped.await) };
    Background { stop, task: tokio::spawn(worker.run_until(shutdown)) }
}

#[allow(dead_code, reason = "not every test file needs all of it")]
impl Background {
    /// Tells it to stop and waits until it has.
    pub async fn stop(self) -> Stopped {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap()
    }

    /// Waits until it has stopped by itself.
    pub async fn ended(self) -> Result<Stopped, Error> {
        let Background { stop: _stop, task } = self;
        task.await.unwrap()
    }

    /// Ends it as if its process were killed.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// A backoff of exactly so long.
#[allow(dead_code, reason = "not every test file needs all of it")]
pub fn fixed(pause: Duration) -> Backoff {
    let ms = i64::try_from(pause.as_millis()).unwrap();
    Backoff { initial_ms: ms, factor: 1.0, max_ms: ms, jitter: Jitter::None }
}

/// Waits until an execution is in a state.
#[allow(dead_code, reason = "not every test file needs all of it")]
pub async fn reaches(run: &Run, state: &str) {
    let mut states = run.watch().await.unwrap();
    while let Some(execution) = states.next().await.unwrap() {
        if execution.public_state().word() == state {
            return;
        }
    }
    panic!("it has ended without being {state}");
}
