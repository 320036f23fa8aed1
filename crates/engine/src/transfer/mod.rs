//! A transfer: everything in one store is written into another one that is empty, of whatever kind and with however many
//! partitions.
//!
//! Both stores are used through the contract alone, and what follows from records is derived anew by the core, so that
//! no store needs to know of it. Nobody may work on either of them meanwhile: the versions of the source are compared at
//! the end, and a commit of somebody else to the target is a conflict. Until everything is there and agrees, the target
//! carries a mark, and no engine starts on it.
//!
//! | to read about | open |
//! |---|---|
//! | records of executions and flows, with what belongs to them | `executions` |
//! | the event log, and who has read how much of it | `events` |
//! | what applications have posted | `posted` |
//! | what is read, and that it stays as it is | `source` |
//! | how it is written | `target` |

mod events;
mod executions;
mod posted;
mod source;
mod target;

use ff_core::key::Ask;
use ff_core::registry::{HOME, Record, RecordKey, RecordKind, UnfinishedCopy};
use ff_core::workspace::Answer;
use ff_store::{Store, StoreError};

use crate::doctor;
use crate::random::mix;
use source::Source;
use target::Target;

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Transferred {
    pub executions: u64,
    pub flows: u64,
    pub events: u64,
    pub posted: u64,
    pub dead_letters: u64,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Executions,
    Events,
    Checking,
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    pub done: u64,
    pub of: u64,
}

/// Why a transfer did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{0} processes work on the store that is to be copied")]
    Served(usize),
    #[error("{0} processes work on the store to copy into")]
    ServedTarget(usize),
    #[error("there is nothing in the store that is to be copied")]
    Empty,
    #[error("the store that is to be copied is itself an unfinished copy of {0}")]
    UnfinishedSource(Box<str>),
    #[error("the store to copy into is an unfinished copy of {0}")]
    UnfinishedTarget(Box<str>),
    #[error("the store to copy into is not empty")]
    NotEmpty,
    #[error("both stores are the same")]
    Same,
    #[error("somebody has worked on the store while it was copied")]
    Changed,
    #[error("somebody else has written into the copy")]
    Interfered,
    #[error("the store has given out more numbers than can be carried over")]
    TooManyNumbers,
    #[error("the copy does not agree with itself: {}{}", shown(.0), more(.0))]
    Damaged(Vec<String>),
    #[error("reading: {0}")]
    Source(StoreError),
    #[error("writing: {0}")]
    Target(StoreError),
}

/// How many problems are told one by one.
const SHOWN: usize = 10;

fn shown(problems: &[String]) -> String {
    problems[..problems.len().min(SHOWN)].join("; ")
}

fn more(problems: &[String]) -> String {
    match problems.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    }
}

/// Whether a store can be copied now, before another one is made for it.
///
/// # Errors
/// If somebody works on it, or if it is empty or not whole.
pub async fn check_source(from: &dyn Store, seed: u64) -> Result<(), TransferError> {
    Source::open(from, seed).await.map(drop)
}

/// Copies everything. `shown` is what the copy says it is made of until it is finished; new ids are made from `seed`.
///
/// # Errors
/// Whatever the reason, the source is as it was. Unless the target was refused before anything was written, it is marked
/// as unfinished, and has to be made anew.
pub async fn transfer(
    from: &dyn Store,
    to: &dyn Store,
    shown: &str,
    seed: u64,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<Transferred, TransferError> {
    if from.info().id == to.info().id {
        return Err(TransferError::Same);
    }
    let source = Source::open(from, seed).await?;
    let mut target = Target::open(to, &source, seed).await?;
    target.mark(shown).await?;

    let mut done = Transferred::default();
    posted::letters(&source, &mut target, &mut done).await?;
    global_records(&source, &mut target).await?;
    executions::flows(&source, &mut target, &mut done).await?;
    executions::executions(&source, &mut target, &mut done, tell).await?;
    executions::keys(&source, &mut target).await?;
    let webhooks = events::events(&source, &mut target, &mut done, tell).await?;
    registry(&source, &mut target, webhooks).await?;
    let posted = posted::rows(&source, &mut target, &mut done).await?;
    target.plan_sweeps();
    target.flush().await?;

    tell(Progress { stage: Stage::Checking, done: 0, of: done.executions });
    check(&source, to, &done).await?;
    source.check_unchanged().await?;
    if posted::numbers(&source).await? != posted {
        return Err(TransferError::Changed);
    }
    target.unmark().await?;
    Ok(done)
}

/// Fails if the store is a copy that was not finished.
pub(crate) async fn refuse_unfinished(store: &dyn Store) -> Result<(), StoreError> {
    match unfinished(store).await? {
        None => Ok(()),
        Some(copy) => Err(StoreError::Unusable(format!(
            "this store is an unfinished copy of {}: not everything is in it. Remove it and copy again",
            copy.from
        ))),
    }
}

async fn unfinished(store: &dyn Store) -> Result<Option<UnfinishedCopy>, StoreError> {
    let RecordKey { kind, id } = RecordKey::copy();
    let home = HOME.partition(store.info().partitions);
    let loaded = store.load(home, vec![Ask::Registry { kind, id: Some(id) }]).await?;
    Ok(loaded.answers.iter().find_map(|answer| match answer {
        Answer::Registry { records, .. } => records.iter().find_map(|record| match &**record {
            Record::Copy(copy) => Some(copy.clone()),
            _ => None,
        }),
        _ => None,
    }))
}

/// Lanes, workers and signing keys: all partitions have them, and their homes know them best.
async fn global_records(source: &Source<'_>, target: &mut Target<'_>) -> Result<(), TransferError> {
    for lane in source.lanes() {
        target.in_each(source::RECORD_BYTES, |desk| desk.put_lane((**lane).clone()));
        target.make_room().await?;
    }
    for key in source.signing_keys() {
        target.in_each(source::RECORD_BYTES, |desk| desk.put_signing_key((**key).clone()));
        target.make_room().await?;
    }
    for worker in source.workers() {
        target.in_each(source::RECORD_BYTES, |desk| desk.restore_worker(worker));
        target.make_room().await?;
    }
    Ok(())
}

/// Access tokens, webhooks and bulk operations.
async fn registry(
    source: &Source<'_>,
    target: &mut Target<'_>,
    webhooks: events::Webhooks,
) -> Result<(), TransferError> {
    for kind in [RecordKind::Token, RecordKind::Bulk] {
        for record in source.records(kind).await? {
            target.put(HOME, source::RECORD_BYTES, |desk| desk.put_record((*record).clone()));
        }
    }
    for webhook in webhooks.on(target) {
        target.put(HOME, source::RECORD_BYTES, |desk| desk.put_record(Record::Webhook(webhook)));
    }
    target.make_room().await
}

/// Whether the copy agrees with itself and with what it was made of.
async fn check(source: &Source<'_>, to: &dyn Store, done: &Transferred) -> Result<(), TransferError> {
    let mut found = doctor::examine(to).await.map_err(TransferError::Target)?;
    let mut counts = (source.counts().await?, to.counts().await.map_err(TransferError::Target)?);
    counts.0.sort();
    counts.1.sort();
    if counts.0 != counts.1 {
        found
            .problems
            .push("it has other numbers of executions by namespace, lane, kind and state".to_owned());
    }
    let copied = (done.executions, done.flows, done.dead_letters);
    if (found.executions, found.flows, found.dead_letters) != copied {
        found.problems.push(format!(
            "it has {} executions, {} flows and {} dead letters; {}, {} and {} were copied",
            found.executions, found.flows, found.dead_letters, copied.0, copied.1, copied.2
        ));
    }
    if found.problems.is_empty() { Ok(()) } else { Err(TransferError::Damaged(found.problems)) }
}

/// How many processes work on a store: whoever does has entered its name, as is done here for a moment.
async fn served(store: &dyn Store, seed: u64) -> Result<usize, StoreError> {
    let name = format!("{:016x}", mix(seed));
    let alive = store.beat(name.clone()).await?;
    store.leave(name.clone()).await?;
    Ok(alive.iter().filter(|it| **it != name).count())
}
