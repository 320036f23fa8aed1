//! Webhooks: events of the log, delivered to addresses outside.
//!
//! | to read about | open |
//! |---|---|
//! | which server delivers what | this file |
//! | one webhook: what is sent, in which order, and what follows from the answer | [`deliver`] |
//! | one request | [`send`] |
//! | where requests may go | [`address`] |
//! | how receivers know who sent it | [`sign`] |
//!
//! Each webhook has one server that delivers, which is stored; when that one is gone, another takes over. What was
//! sent and could not be noted is sent again: receivers get everything at least once and in order.

mod address;
mod deliver;
mod send;
mod sign;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ff_core::registry::Webhook;
use ff_engine::{Engine, Failure};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use address::Targets;

use deliver::Delivering;
use send::Sender;

/// How webhooks are served.
#[derive(Clone, Debug)]
pub struct Options {
    pub targets: Targets,
    /// Authorities that receivers are checked with beside those that the machine trusts, as a PEM file.
    pub authorities: Option<PathBuf>,
    /// How often it is looked whether webhooks have changed or lost their server.
    pub look_every: Duration,
    /// How long one request may take, from its connection to the head of its answer.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        let [look_every, timeout] = [1, 10].map(Duration::from_secs);
        Options { targets: Targets::Public, authorities: None, look_every, timeout }
    }
}

/// How long leaving all webhooks may take where the store is away; other servers then find out by themselves.
const LEAVING: Duration = Duration::from_secs(5);

/// The deliveries of one server, until they are stopped.
#[derive(Debug)]
pub struct Deliveries {
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Deliveries {
    /// Ends deliveries that are under way and leaves the webhooks to other servers.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.done.await;
    }
}

/// Begins to deliver.
pub fn start(engine: Engine, options: Options) -> Deliveries {
    let (stop, stopped) = oneshot::channel();
    let sender = Arc::new(Sender::new(options.targets, options.authorities, options.timeout));
    let crew = Crew { engine, sender, at_work: FxHashMap::default() };
    let done = tokio::spawn(crew.run(options.look_every, stopped));
    Deliveries { stop, done }
}

/// A task for each webhook that this server delivers to.
struct Crew {
    engine: Engine,
    sender: Arc<Sender>,
    at_work: FxHashMap<Box<str>, AtWork>,
}

struct AtWork {
    /// What people have said of the webhook when the task began.
    revision: u64,
    task: JoinHandle<()>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Crew {
    async fn run(mut self, every: Duration, mut stopped: oneshot::Receiver<()>) {
        loop {
            let look = async {
                if let Err(failure) = self.look().await {
                    tracing::warn!(%failure, "webhooks cannot be looked at");
                }
                tokio::time::sleep(every).await;
            };
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                () = look => {}
            }
        }
        let ids: Vec<Box<str>> = self.at_work.drain().map(|(id, _)| id).collect();
        // Whoever has removed or taken it meanwhile is right.
        ended_within(LEAVING, ids.iter().map(|id| self.engine.leave_webhook(id))).await;
    }

    /// Ends tasks whose webhook has changed, and begins those that are missing.
    async fn look(&mut self) -> Result<(), Failure> {
        let webhooks = self.engine.webhooks().await?;
        let is_mine = |it: &Webhook| it.server.as_deref() == Some(self.engine.server());
        self.at_work.retain(|id, work| {
            let stands = |it: &Arc<Webhook>| {
                it.id == *id && it.revision == work.revision && it.paused.is_none() && is_mine(it)
            };
            !work.task.is_finished() && webhooks.iter().any(stands)
        });
        for webhook in webhooks {
            if webhook.paused.is_none() && !self.at_work.contains_key(&webhook.id) {
                self.begin(webhook).await;
            }
        }
        Ok(())
    }

    /// Begins to deliver, unless another server does.
    async fn begin(&mut self, webhook: Arc<Webhook>) {
        let webhook = match &webhook.server {
            Some(server) if **server == *self.engine.server() => webhook,
            Some(server) if self.engine.is_alive(server) => return,
            before => match self.engine.take_webhook(&webhook.id, before.clone()).await {
                Ok(webhook) => webhook,
                // Another one was faster, or it is gone: the next look tells.
                Err(_) => return,
            },
        };
        let (id, revision) = (webhook.id.clone(), webhook.revision);
        let delivering = Delivering::new(self.engine.clone(), self.sender.clone(), webhook);
        let name = id.clone();
        let task = tokio::spawn(async move {
            if let Err(failure) = delivering.run().await {
                tracing::warn!(webhook = %name, %failure, "deliveries are interrupted");
            }
        });
        self.at_work.insert(id, AtWork { revision, task });
    }
}

/// Lets all of them go on at once, until they have ended or the time is over.
async fn ended_within<F: Future>(time: Duration, all: impl Iterator<Item = F>) {
    let _ = tokio::time::timeout(time, futures_util::future::join_all(all)).await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::cell::Cell;

    use ff_engine::EngineConfig;
    use ff_store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn one_that_does_not_end_keeps_neither_the_others_nor_the_end() {
        let ended = Cell::new(0);
        let one = async |ends: bool| match ends {
            true => ended.set(ended.get() + 1),
            false => std::future::pending().await,
        };
        ended_within(Duration::ZERO, [false, true, false, true].into_iter().map(one)).await;
        assert_eq!(ended.get(), 2);
    }

    #[tokio::test]
    async fn deliveries_stop_while_the_store_does_not_answer() {
        let store = MemoryStore::new(1);
        let engine = Engine::start(Arc::new(store.another()), EngineConfig::default()).await.unwrap();
        store.faults().stall_loads();
        let deliveries = start(engine, Options::default());
        store.faults().until_waiting(1).await;
        deliveries.stop().await;
    }
}
