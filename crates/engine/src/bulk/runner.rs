//! Who carries out bulk operations. The process in which one was begun does, for as long as it lives; a server that was
//! asked to takes over those of processes that are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ff_core::commands::TakeBulk;
use ff_core::registry::BulkOperation;
use ff_core::{Ms, Rejection};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::bulk;
use crate::engine::{Engine, WeakEngine};
use crate::failure::Failure;

/// How often it is looked whether an operation was begun elsewhere or has lost its server, and how soon a part that
/// could not be carried out is tried again.
const LOOK_EVERY_MS: Ms = 1_000;

/// What the tasks of one engine that carry out operations share.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// There may be something to do.
    pub wake: Notify,
    /// Whether there is a task.
    at_work: AtomicBool,
}

/// Which operations are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those that this process has begun or taken over.
    Mine,
    /// Also those of processes that are gone.
    Anybodys,
}

/// Carries out what this server may, until it is stopped.
#[derive(Debug)]
pub struct BulkRunner {
    engine: Engine,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl BulkRunner {
    /// Ends with the part that is under way and leaves what is not finished to other servers.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.done.await;
        self.engine.bulk_desk().at_work.store(false, Ordering::SeqCst);
        let Ok(bulks) = self.engine.bulks().await else { return };
        for bulk in bulks.iter().filter(|it| it.is_running() && self.engine.is_mine(it)) {
            let (before, server) = (bulk.server.clone(), None);
            // Whoever has taken it meanwhile is right.
            let _ = self.engine.execute(TakeBulk { bulk: bulk.id.clone(), before, server }).await;
        }
    }
}

impl Engine {
    /// From now on this server also carries out operations of others that are gone.
    pub fn run_bulks(&self) -> BulkRunner {
        self.bulk_desk().at_work.store(true, Ordering::SeqCst);
        let (stop, mut stopped) = oneshot::channel();
        let engine = self.clone();
        let done = tokio::spawn(async move {
            loop {
                let wait = engine.look_at_bulks(Whose::Anybodys).await.unwrap_or(LOOK_EVERY_MS);
                let desk = engine.bulk_desk().clone();
                tokio::select! {
                    biased;
                    _ = &mut stopped => return,
                    () = pause(&desk, engine.has_own_clock(), wait) => {}
                }
            }
        });
        BulkRunner { engine: self.clone(), stop, done }
    }

    /// Carries out what was begun here, unless somebody does already.
    pub(super) fn carry_out_bulks(&self) {
        let desk = self.bulk_desk();
        desk.wake.notify_one();
        if desk.at_work.swap(true, Ordering::SeqCst) {
            return;
        }
        let (engine, desk, own_clock) = (self.downgrade(), desk.clone(), self.has_own_clock());
        tokio::spawn(async move {
            // It ends with the last handle on its engine.
            while let Some(wait) = turn(&engine, &desk).await {
                pause(&desk, own_clock, wait).await;
            }
        });
    }

    /// One part of each operation that is due; after how long there is more to do, if anything is left.
    pub async fn advance_bulks(&self, whose: Whose) -> Result<Option<Ms>, Failure> {
        let (bulks, now) = self.read_bulks(None).await?;
        let mut next: Option<Ms> = None;
        for bulk in bulks.into_iter().filter(|it| it.is_running()) {
            let Some(bulk) = self.take_bulk(bulk, whose).await? else { continue };
            let wait = match bulk.next_at.map(|at| at.saturating_sub(now)).filter(|wait| *wait > 0) {
                Some(wait) => Some(wait),
                None => self.advance_bulk(&bulk).await?,
            };
            next = wait.into_iter().chain(next).min();
        }
        Ok(next)
    }

    /// The operation if this server carries it out, or may from now on.
    async fn take_bulk(
        &self,
        known: Arc<BulkOperation>,
        whose: Whose,
    ) -> Result<Option<Arc<BulkOperation>>, Failure> {
        if self.is_mine(&known) {
            return Ok(Some(known));
        }
        let lives = known.server.as_deref().is_some_and(|server| self.is_alive(server));
        if whose == Whose::Mine || lives {
            return Ok(None);
        }
        let (before, server) = (known.server.clone(), Some(self.server().into()));
        match self.execute(TakeBulk { bulk: known.id.clone(), before, server }).await {
            Ok(reply) => bulk(reply).map(Some),
            Err(failure) if is_left(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Carries out one part; after how long there is more.
    async fn advance_bulk(&self, operation: &BulkOperation) -> Result<Option<Ms>, Failure> {
        match self.next_part(operation).await {
            Ok(bulk) if !bulk.is_running() => Ok(None),
            Ok(bulk) => match bulk.next_at {
                Some(at) => Ok(Some(at.saturating_sub(self.now().await?).max(0))),
                None => Ok(Some(0)),
            },
            Err(failure) if is_left(&failure) => Ok(None),
            Err(failure) => {
                tracing::warn!(bulk = %operation.id, %failure, "a part of a bulk operation is tried again");
                match failure {
                    Failure::ShuttingDown => Err(failure),
                    _ => Ok(Some(LOOK_EVERY_MS)),
                }
            }
        }
    }

    fn is_mine(&self, bulk: &BulkOperation) -> bool {
        bulk.server.as_deref() == Some(self.server())
    }

    /// One look; after how long the next is due.
    async fn look_at_bulks(&self, whose: Whose) -> Option<Ms> {
        match self.advance_bulks(whose).await {
            Ok(next) => next.map(|wait| wait.min(LOOK_EVERY_MS)),
            Err(_) if self.is_stopped() => None,
            Err(failure) => {
                tracing::warn!(%failure, "bulk operations cannot be looked at");
                Some(LOOK_EVERY_MS)
            }
        }
    }
}

/// One turn of a task that ends when nothing is left to do here.
async fn turn(engine: &WeakEngine, desk: &Desk) -> Option<Ms> {
    let engine = engine.upgrade()?;
    if let Some(wait) = engine.look_at_bulks(Whose::Mine).await {
        return Some(wait);
    }
    desk.at_work.store(false, Ordering::SeqCst);
    // One may have begun right before others were told that nobody is at work.
    let wait = engine.look_at_bulks(Whose::Mine).await?;
    (!desk.at_work.swap(true, Ordering::SeqCst)).then_some(wait)
}

/// Waits for time to pass or for news. Where tests move the time, they bring the news.
async fn pause(desk: &Desk, own_clock: bool, wait: Ms) {
    match (wait, own_clock) {
        (..=0, _) => tokio::task::yield_now().await,
        (_, true) => desk.wake.notified().await,
        (wait, false) => {
            let time = Duration::from_millis(wait.unsigned_abs());
            let _ = tokio::time::timeout(time, desk.wake.notified()).await;
        }
    }
}

/// Whether somebody else carries it out, or it is gone.
fn is_left(failure: &Failure) -> bool {
    matches!(failure, Failure::Rejected(Rejection::BulkSuperseded { .. } | Rejection::NotFound { .. }))
}
