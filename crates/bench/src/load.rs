//! The steady load: so many callers at once, each submitting one execution and waiting for its end, again and again.

use std::future::Future;
use std::time::{Duration, Instant};

use flowfabric::Fabric;
use tokio::task::JoinSet;

use crate::bed::NOOP;
use crate::scenario::bar;

/// How many callers there are, over all processes.
pub const CALLERS: usize = 512;
/// How long callers that are not answered are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub callers: usize,
    /// What ends before it is over does not count.
    pub warm_up: Duration,
    pub time: Duration,
}

/// One execution as its caller saw it.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// Since the end of the warm-up.
    at: Duration,
    took: Duration,
}

/// What the callers saw.
#[derive(Clone, Debug)]
pub struct Seen {
    time: Duration,
    endings: Vec<Ending>,
    /// All of them, also those that do not count.
    pub ended: usize,
}

impl Load {
    pub fn of_seconds(seconds: u64) -> Load {
        Load { callers: CALLERS, warm_up: Duration::ZERO, time: Duration::from_secs(seconds) }
    }

    /// `each` submits an execution and returns when it has ended.
    pub async fn run<F, Fut>(self, name: &str, each: F) -> anyhow::Result<Seen>
    where
        F: Fn() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = anyhow::Result<()>> + Send,
    {
        let Load { callers, warm_up, time } = self;
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let each = each.clone();
            tasks.spawn(async move {
                let (mut endings, mut ended) = (Vec::new(), 0);
                while started.elapsed() < warm_up + time {
                    let sent = Instant::now();
                    each().await?;
                    ended += 1;
                    if let Some(at) = started.elapsed().checked_sub(warm_up).filter(|at| *at < time) {
                        endings.push(Ending { at, took: sent.elapsed() });
                    }
                }
                anyhow::Ok((endings, ended))
            });
        }
        let mut seen = Seen { time, endings: Vec::new(), ended: 0 };
        let bar = bar(name, (warm_up + time).as_millis() as u64 / 100);
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            tokio::select! {
                task = tasks.join_next() => match task {
                    None => break,
                    Some(task) => {
                        let (endings, ended) = task??;
                        seen.endings.extend(endings);
                        seen.ended += ended;
                    }
                },
                _ = tick.tick() => bar.set_position(started.elapsed().as_millis() as u64 / 100),
            }
            let late = started.elapsed() > warm_up + time + PATIENCE;
            anyhow::ensure!(!late, "{} callers have not been answered for a minute", tasks.len());
        }
        bar.finish_and_clear();
        Ok(seen)
    }
}

impl Seen {
    pub fn count(&self) -> usize {
        self.endings.len()
    }

    /// Executions a second.
    pub fn rate(&self) -> f64 {
        self.count() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Executions a second in each part of this length, one after the other; what is left over is in none.
    pub fn parts(&self, length: Duration) -> Vec<f64> {
        let mut parts = vec![0.0; (self.time.as_nanos() / length.as_nanos().max(1)) as usize];
        for ending in &self.endings {
            if let Some(part) = parts.get_mut((ending.at.as_nanos() / length.as_nanos()) as usize) {
                *part += 1.0 / length.as_secs_f64();
            }
        }
        parts
    }

    /// From submit to end, shortest first.
    pub fn latencies(&self) -> Vec<Duration> {
        let mut latencies: Vec<Duration> = self.endings.iter().map(|ending| ending.took).collect();
        latencies.sort();
        latencies
    }
}

/// Submits to a fabric in this process and waits there.
pub fn through(fabric: &Fabric) -> impl Fn() -> Submitted + Clone + Send + 'static {
    let fabric = fabric.clone();
    move || {
        let fabric = fabric.clone();
        Box::pin(async move {
            fabric.submit(NOOP, &()).await?.wait().await?;
            Ok(())
        })
    }
}

type Submitted = std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(seconds: u64, at_ms: &[u64]) -> Seen {
        let ending = |ms: &u64| Ending { at: Duration::from_millis(*ms), took: Duration::from_millis(1) };
        Seen {
            time: Duration::from_secs(seconds),
            endings: at_ms.iter().map(ending).collect(),
            ended: at_ms.len(),
        }
    }

    #[test]
    fn parts_count_what_ended_in_them_and_leave_out_the_rest() {
        let seen = seen(5, &[0, 1_999, 2_000, 3_000, 3_999, 4_500]);
        assert_eq!(seen.parts(Duration::from_secs(2)), [1.0, 1.5]);
        assert_eq!(seen.rate(), 1.2);
    }

    #[tokio::test]
    async fn a_caller_that_fails_fails_the_load() {
        let load = Load { callers: 3, warm_up: Duration::ZERO, time: Duration::from_secs(60) };
        let error = load.run("test", || async { anyhow::bail!("no") }).await.unwrap_err();
        assert_eq!(error.to_string(), "no");
    }
}
