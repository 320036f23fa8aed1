//! The least engine there can be: decides commands on a workspace over a store, one batch at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::commands::{Acknowledge, Apply, Command, Fire, decide};
use ff_core::key::Ask;
use ff_core::limits::Limits;
use ff_core::workspace::{Stop, Workspace};
use ff_core::{CommitId, Ms, PartitionId, Rejection, Reply, Route};

use super::stand::SERVER;
use super::{ensure, ensure_eq};
use crate::{Commit, Outcome, Store, Version};

/// How many agenda entries a refill asks for; small, so that the agenda is read in many parts.
const AGENDA_PART: usize = 4;

/// How often a command may ask for more; one that follows a graph asks for each stretch of it.
const LOADS_MAX: usize = 100;

pub type Answered = Result<Reply, Rejection>;

pub struct Engine {
    partitions: u16,
    limits: Arc<Limits>,
    workspaces: Vec<(Workspace, Version)>,
    commits: u64,
}

impl Engine {
    pub fn new(partitions: u16, limits: Limits) -> Engine {
        let mut engine = Engine { partitions, limits: Arc::new(limits), workspaces: Vec::new(), commits: 0 };
        engine.workspaces = (0..partitions).map(|at| engine.empty(PartitionId(at))).collect();
        engine
    }

    fn empty(&self, partition: PartitionId) -> (Workspace, Version) {
        (Workspace::new(partition, self.partitions, self.limits.clone()), Version::NONE)
    }

    /// Forgets what is known of a partition, so that it is read anew.
    pub fn forget(&mut self, partition: PartitionId) {
        self.workspaces[partition.index()] = self.empty(partition);
    }

    /// Decides commands and commits what they changed. The replies stand in the order of the commands.
    pub async fn run(
        &mut self,
        store: &dyn Store,
        partition: PartitionId,
        now: Ms,
        commands: &[Command],
    ) -> Result<Vec<Answered>, String> {
        let (workspace, version) = &mut self.workspaces[partition.index()];
        open(workspace, version, store).await?;
        let mut replies = Vec::new();
        for command in commands {
            replies.push(answer(workspace, *version, store, now, command).await?);
        }
        let changes = workspace.take_batch(now);
        self.commits += 1;
        let id = CommitId::from_parts(now, Route(partition.0), self.commits);
        let outcomes =
            store.commit(vec![Commit { partition, expected: *version, id, by: SERVER, changes }]).await;
        ensure!(matches!(outcomes.as_slice(), [Outcome::Committed { .. }]), "a batch: {outcomes:?}");
        *version = Version { number: version.number + 1, id };
        Ok(replies)
    }

    /// The entries that are due, in order.
    pub async fn due(
        &mut self,
        store: &dyn Store,
        partition: PartitionId,
        now: Ms,
    ) -> Result<Vec<(AgendaKey, Option<Arc<ff_core::message::Message>>)>, String> {
        let (workspace, version) = &mut self.workspaces[partition.index()];
        open(workspace, version, store).await?;
        let due = workspace.agenda().iter().take_while(|(key, _)| key.due <= now);
        Ok(due.map(|(key, message)| (*key, message.clone())).collect())
    }

    /// Fires what is due; messages are applied where they belong and acknowledged.
    pub async fn fire_due(
        &mut self,
        store: &dyn Store,
        partition: PartitionId,
        now: Ms,
    ) -> Result<(), String> {
        for (entry, message) in self.due(store, partition, now).await? {
            let command: Command = match (entry.subject, message) {
                (Subject::Deliver { to, number }, Some(message)) => {
                    let apply = Apply { from: partition, number, message };
                    self.run(store, to, now, &[apply.into()]).await?;
                    Acknowledge { entry }.into()
                }
                (Subject::Deliver { .. }, None) => return Err(format!("the message of {entry:?} is lost")),
                _ => Fire { entry, seed: 7, after_outage: false }.into(),
            };
            self.run(store, partition, now, &[command]).await?;
        }
        Ok(())
    }
}

/// Makes sure that the partition is known and its whole agenda in memory.
async fn open(workspace: &mut Workspace, version: &mut Version, store: &dyn Store) -> Result<(), String> {
    if !workspace.is_open() {
        *version = learn(workspace, store, vec![Ask::Opening]).await?;
    }
    while let Some(after) = workspace.agenda_mut().start_refill() {
        let seen = learn(workspace, store, vec![Ask::Agenda { after, limit: AGENDA_PART }]).await?;
        ensure_eq!(seen, *version, "version of a refill");
        ensure!(workspace.agenda().mark() > after, "a refill after {after} reached nothing");
    }
    Ok(())
}

async fn learn(workspace: &mut Workspace, store: &dyn Store, asks: Vec<Ask>) -> Result<Version, String> {
    let loaded = store.load(workspace.partition, asks).await.map_err(|error| error.to_string())?;
    loaded.answers.into_iter().for_each(|answer| workspace.learn(answer));
    Ok(loaded.version)
}

async fn answer(
    workspace: &mut Workspace,
    version: Version,
    store: &dyn Store,
    now: Ms,
    command: &Command,
) -> Result<Answered, String> {
    for _ in 0..LOADS_MAX {
        let asks = match decide(workspace, now, command) {
            Ok(reply) => return Ok(Ok(reply)),
            Err(Stop::Reject(rejection)) => return Ok(Err(rejection)),
            Err(Stop::Need(asks)) => asks,
        };
        for ask in &asks {
            if let Ask::Ready { lane, class, .. } = ask
                && let Some(window) = workspace.ready_mut().window_mut(lane, class)
            {
                window.start_refill();
            }
        }
        let seen = learn(workspace, store, asks).await?;
        ensure_eq!(seen, version, "version of a load between commits");
    }
    Err(format!("{} still needs records after {LOADS_MAX} loads", command.name()))
}

/// Tells executions of a reply apart from others, for those who follow them.
pub fn claimed(reply: &Answered) -> Vec<Arc<ff_core::Execution>> {
    let mut seen = BTreeSet::new();
    match reply {
        Ok(Reply::Claimed(list)) => list.iter().filter(|it| seen.insert(it.id)).cloned().collect(),
        _ => Vec::new(),
    }
}
