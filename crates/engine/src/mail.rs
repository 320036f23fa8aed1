//! What people and workers ask about waitpoints, signals, steps, output and keys.

use std::sync::Arc;

use ff_core::commands::{IssueToken, OpenWaitpoint, RotateKey, SendSignal, To, token_is_good};
use ff_core::key::{Ask, Key};
use ff_core::query::{FramePageAsk, WaitpointPage, WaitpointPageAsk};
use ff_core::step::Step;
use ff_core::stream::{Frame, Stream};
use ff_core::suspension::token::Secret;
use ff_core::suspension::{Effect, Signal, SigningKey, Token, TokenText, Waitpoint, WaitpointId};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, Ms, PartitionId, Rejection, Reply, Route};

use crate::engine::{Engine, unavailable};
use crate::failure::Failure;

/// An open waitpoint and the token that opens it to an outsider.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedWaitpoint {
    pub id: WaitpointId,
    pub expires_at: Option<Ms>,
    pub token: TokenText,
}

/// What a signal did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signalled {
    pub execution: ExecutionId,
    pub effect: Effect,
    /// Its number, if it was kept.
    pub number: Option<u32>,
}

/// Some recorded steps of an execution, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPage {
    pub steps: Vec<Step>,
    /// After how many steps the next page starts; absent when there are no more.
    pub next: Option<usize>,
}

/// How much the results of one page of steps come to, about; it has one step at least.
const STEP_BYTES_MAX: usize = 16 << 20;

impl Engine {
    /// A new id for a child execution: it lives where its parent does.
    pub fn new_child_execution_id(&self, now: Ms, parent: ExecutionId) -> ExecutionId {
        ExecutionId::from_parts(now, parent.route(), self.random())
    }

    /// Opens a waitpoint under a lease.
    pub async fn open_waitpoint(&self, command: OpenWaitpoint) -> Result<OpenedWaitpoint, Failure> {
        self.ensure_key().await?;
        opened(self.execute(command).await?)
    }

    /// The token of an open waitpoint. Who asks for it is written down.
    pub async fn issue_token(
        &self,
        waitpoint: WaitpointId,
        actor: &str,
        cause: &str,
    ) -> Result<OpenedWaitpoint, Failure> {
        self.ensure_key().await?;
        let (actor, cause) = (actor.into(), cause.into());
        opened(self.execute(IssueToken { waitpoint, actor, cause }).await?)
    }

    /// Delivers a signal.
    pub async fn signal(&self, signal: SendSignal) -> Result<Signalled, Failure> {
        match self.execute(signal).await? {
            Reply::Signalled { execution, effect, number } => Ok(Signalled { execution, effect, number }),
            other => Err(unexpected(&other)),
        }
    }

    /// Where a signal goes that comes with a token. A text that is no token gets the answer of a wrong one.
    pub fn token_target(text: &str) -> Result<To, Failure> {
        text.parse::<Token>().map(To::Token).map_err(|_| Failure::Rejected(Rejection::TokenRefused))
    }

    /// What a token is good for, without using it: the execution, and the waitpoint if it still takes signals.
    pub async fn look_at_token(&self, text: &str) -> Result<(Arc<Execution>, Option<Waitpoint>), Failure> {
        let refused = || Failure::Rejected(Rejection::TokenRefused);
        let token: Token = text.parse().map_err(|_| refused())?;
        let id = token.waitpoint.execution;
        let partition = id.route().partition(self.store().info().partitions);
        let asks = vec![Ask::Record(Key::Execution(id)), Ask::Opening];
        let loaded = self.store().load(partition, asks).await.map_err(unavailable)?;
        let (mut execution, mut key) = (None, None);
        for answer in loaded.answers {
            match answer {
                Answer::Execution(_, found) => execution = found,
                Answer::Opening(opening) => {
                    key = opening.signing_keys.iter().find(|key| key.id == token.key).cloned();
                }
                _ => {}
            }
        }
        let execution = execution.ok_or_else(refused)?;
        if !token_is_good(&execution, key.as_deref(), &token, loaded.now) {
            return Err(refused());
        }
        let waitpoint = execution.mailbox().and_then(|it| it.waitpoint(token.waitpoint.number)).cloned();
        Ok((execution, waitpoint))
    }

    /// Sees to it that there is a key to sign tokens with.
    async fn ensure_key(&self) -> Result<(), Failure> {
        if self.has_key() {
            return Ok(());
        }
        if self.signing_keys().await?.is_empty() {
            let cause = "the first token needs a key".into();
            self.rotate(0, true, "system".into(), cause).await?;
        }
        self.set_has_key();
        Ok(())
    }

    /// Makes a new key; tokens of older ones stay good for `grace_ms`.
    pub async fn rotate_key(
        &self,
        grace_ms: Ms,
        actor: &str,
        cause: &str,
    ) -> Result<Arc<SigningKey>, Failure> {
        self.rotate(grace_ms, false, actor.into(), cause.into()).await
    }

    async fn rotate(
        &self,
        grace_ms: Ms,
        if_none: bool,
        actor: Box<str>,
        cause: Box<str>,
    ) -> Result<Arc<SigningKey>, Failure> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|error| Failure::Internal(format!("the system gives no random bytes: {error}")))?;
        match self.execute(RotateKey { secret: Secret(secret), grace_ms, if_none, actor, cause }).await? {
            Reply::Key { key, .. } => Ok(key),
            other => Err(unexpected(&other)),
        }
    }

    /// All keys, oldest first.
    pub async fn signing_keys(&self) -> Result<Vec<Arc<SigningKey>>, Failure> {
        let home = Route(0).partition(self.store().info().partitions);
        let loaded = self.store().load(home, vec![Ask::Opening]).await.map_err(unavailable)?;
        let mut keys: Vec<Arc<SigningKey>> = loaded
            .answers
            .into_iter()
            .flat_map(|answer| match answer {
                Answer::Opening(opening) => opening.signing_keys,
                _ => Vec::new(),
            })
            .collect();
        keys.sort_by_key(|key| key.id);
        Ok(keys)
    }

    /// A page of open waitpoints.
    pub async fn waitpoints(&self, ask: WaitpointPageAsk) -> Result<WaitpointPage, Failure> {
        self.store().waitpoints(ask).await.map_err(unavailable)
    }

    /// Signals that an execution has kept, in the order of arrival, after a number.
    pub async fn signals(
        &self,
        execution: ExecutionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Signal>, Failure> {
        let Some(record) = self.get(execution).await? else { return Err(missing(execution)) };
        let received = record.mailbox().map_or(0, |mailbox| mailbox.received);
        let numbers = after.saturating_add(1)..=received;
        let keys = numbers.take(limit).map(|number| (execution, number)).collect();
        let found = self.store().signals(keys).await.map_err(unavailable)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Recorded steps of an execution, in the order in which they were recorded, but for the first `after`: up to so
    /// many, and fewer where their results are large.
    pub async fn steps(
        &self,
        execution: ExecutionId,
        after: usize,
        limit: usize,
    ) -> Result<StepPage, Failure> {
        if self.get(execution).await?.is_none() {
            return Err(missing(execution));
        }
        let mut steps = self.store().steps(vec![execution]).await.map_err(unavailable)?;
        steps.drain(..after.min(steps.len()));
        let mut bytes = 0;
        let mut fits = |step: &Step| {
            bytes += step.result.len();
            bytes <= STEP_BYTES_MAX
        };
        let fitting = steps.iter().take(limit).take_while(|step| fits(step)).count().max(1);
        let more = steps.len() > fitting;
        steps.truncate(fitting);
        Ok(StepPage { next: more.then_some(after + fitting), steps })
    }

    /// Frames of one attempt.
    pub async fn frames(&self, ask: FramePageAsk) -> Result<Vec<Frame>, Failure> {
        self.store().frames(ask).await.map_err(unavailable)
    }

    /// What is known of the output of an execution; nothing if there is none.
    pub async fn stream(&self, execution: ExecutionId) -> Result<Option<Arc<Stream>>, Failure> {
        let partition: PartitionId = execution.route().partition(self.store().info().partitions);
        let asks = vec![Ask::Record(Key::Stream(execution))];
        let loaded = self.store().load(partition, asks).await.map_err(unavailable)?;
        Ok(loaded.answers.into_iter().find_map(|answer| match answer {
            Answer::Stream(_, stream) => stream,
            _ => None,
        }))
    }
}

fn opened(reply: Reply) -> Result<OpenedWaitpoint, Failure> {
    match reply {
        Reply::WaitpointOpened { waitpoint: id, expires_at, token: Some(token) } => {
            Ok(OpenedWaitpoint { id, expires_at, token })
        }
        Reply::WaitpointOpened { .. } => Err(Failure::Internal("there is no key to sign with".to_owned())),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::Internal(format!("an unexpected reply: {reply:?}"))
}

fn missing(execution: ExecutionId) -> Failure {
    Failure::Rejected(Rejection::NotFound { what: "execution".into(), id: execution.to_string() })
}
