//! Waitpoints: places at which outsiders signal, with a token each.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use ff_core::Ms;
use ff_core::commands::{NewWaitpoint, OpenWaitpoint as Open};
use ff_core::name::SignalName;
use ff_core::step::StepKind;
use ff_core::suspension::{Condition, Digest, Match, TokenText, WaitpointId};
use ff_engine::Failure;
use serde::Deserialize;

use super::journal::Call;
use super::signal_wait::WaitForSignal;
use super::{PAUSE, read, unfit};
use crate::time::ms;
use crate::{Context, TaskFailure};

/// What opening a waitpoint records.
#[derive(Deserialize)]
struct Recorded {
    waitpoint: WaitpointId,
    #[serde(default)]
    expires_at: Option<Ms>,
}

impl Context {
    /// Opens a waitpoint: a place at which outsiders signal this execution, with a token that is good for nothing
    /// else. It is opened once, however often the handler runs. Hand its [token](OpenWaitpoint::token) out in a
    /// step, then [wait](OpenWaitpoint::wait).
    ///
    /// # Errors
    /// `invalid` names what does not fit; `too_many_waitpoints`.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{Context, Worker};
    /// use std::time::Duration;
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// # let (mail, mut inbox) = tokio::sync::mpsc::unbounded_channel();
    /// let worker = Worker::new(&fabric).on("refund", move |ctx: Context, cents: u64| {
    ///     let mail = mail.clone();
    ///     async move {
    ///         let approval = ctx
    ///             .waitpoint("approval")
    ///             .expires(Duration::from_secs(3600))
    ///             .approvers(["ada", "grace"])
    ///             .action(format!("refund {cents}").as_bytes())
    ///             .await?;
    ///         ctx.step("ask", async || {
    ///             let _ = mail.send(approval.token().await?);
    ///             Ok(())
    ///         })
    ///         .await?;
    ///         let approved = approval.wait::<bool>().await?;
    ///         Ok(approved.payload)
    ///     }
    /// });
    /// let run = fabric.submit("refund", &500).await?;
    /// let approve = async {
    ///     let token = inbox.recv().await.unwrap();
    ///     fabric.signal_with_token(token.reveal()).payload(&true).source("ada").await.unwrap();
    ///     assert!(run.result::<bool>().await.unwrap());
    /// };
    /// worker.run_until(approve).await?;
    /// # Ok(()) }
    /// ```
    pub fn waitpoint(&self, name: &str) -> WaitpointBuilder<'_> {
        let new = SignalName::parse(name).map_err(unfit);
        let new = new.map(|name| NewWaitpoint { name: Some(name), ..NewWaitpoint::default() });
        WaitpointBuilder { ctx: self, name: name.to_owned(), new }
    }
}

/// A waitpoint to be opened, which is opened when it is awaited.
#[derive(Debug)]
#[must_use = "a waitpoint is opened when it is awaited"]
pub struct WaitpointBuilder<'a> {
    ctx: &'a Context,
    name: String,
    new: Result<NewWaitpoint, TaskFailure>,
}

impl WaitpointBuilder<'_> {
    fn put(mut self, put: impl FnOnce(&mut NewWaitpoint)) -> Self {
        if let Ok(new) = &mut self.new {
            put(new);
        }
        self
    }

    /// When it closes by itself; its token ends with it.
    pub fn expires(self, time: Duration) -> Self {
        self.put(|new| new.expires_in_ms = Some(ms(time)))
    }

    /// What is proposed, in whatever bytes both sides have. Its SHA-256 goes into the token, and a signal that names
    /// another action is not taken.
    pub fn action(self, action: &[u8]) -> Self {
        self.put(|new| new.digest = Some(Digest::of(action)))
    }

    /// Only signals of these sources are taken. Who signals through a server with an access token counts under the name
    /// of that token, whatever source it gives; the same holds for the requester and for distinct sources.
    pub fn approvers<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.put(|new| new.approvers.extend(names.into_iter().map(Into::into)))
    }

    /// Who asks, and may therefore not approve.
    pub fn requester(self, name: &str) -> Self {
        self.put(|new| new.requester = Some(name.into()))
    }

    /// One source counts once.
    pub fn distinct_sources(self) -> Self {
        self.put(|new| new.distinct_sources = true)
    }

    /// The token of the waitpoint alone is not enough: whoever signals with it through a server must show an access token,
    /// too, and counts under its name. Otherwise one who may signal can ask for the token of the waitpoint and give
    /// whatever source it likes.
    pub fn known_sources(self) -> Self {
        self.put(|new| new.known_sources = true)
    }
}

/// A waitpoint that was opened. It may be closed by now.
#[derive(Clone, Debug)]
pub struct OpenWaitpoint {
    ctx: Context,
    name: String,
    id: WaitpointId,
    expires_at: Option<Ms>,
    token: Option<TokenText>,
}

impl OpenWaitpoint {
    pub fn id(&self) -> WaitpointId {
        self.id
    }

    /// When it closes by itself, in milliseconds since the Unix epoch.
    pub fn expires_at(&self) -> Option<Ms> {
        self.expires_at
    }

    /// The token that lets whoever holds it signal here, and nothing else. It is not stored anywhere: take care that
    /// it is in no result, log or stream.
    ///
    /// # Errors
    /// `not_found` if the waitpoint is closed.
    pub async fn token(&self) -> Result<TokenText, TaskFailure> {
        match &self.token {
            Some(token) => Ok(token.clone()),
            None => Ok(self
                .ctx
                .fabric()
                .issue_token_as(self.id, "worker", "its handler asks again")
                .await
                .map(|it| it.token)
                .map_err(|error| TaskFailure::fatal(&error).code(error.code()))?),
        }
    }

    /// What waits for a signal here, as a part of a [`suspend`](Context::suspend).
    pub fn condition(&self) -> Condition {
        Condition::Signal(self.matching())
    }

    /// The signals that come through it, for a condition that counts.
    pub fn matching(&self) -> Match {
        Match::waitpoint(self.id.number)
    }

    /// Waits for a signal here; see [`wait_for_signal`](Context::wait_for_signal).
    pub fn wait<T>(&self) -> WaitForSignal<'_, T> {
        WaitForSignal::new(&self.ctx, self.name.clone(), Ok(self.condition()))
    }
}

impl<'a> IntoFuture for WaitpointBuilder<'a> {
    type Output = Result<OpenWaitpoint, TaskFailure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(open(self))
    }
}

async fn open(
    WaitpointBuilder { ctx, name, new }: WaitpointBuilder<'_>,
) -> Result<OpenWaitpoint, TaskFailure> {
    let waitpoint = new?;
    let Call { place, recorded } = ctx.journal().call(&name, StepKind::Waitpoint)?;
    if let Some(step) = recorded {
        let Recorded { waitpoint: id, expires_at } = read(step)?;
        return Ok(OpenWaitpoint { ctx: ctx.clone(), name, id, expires_at, token: None });
    }
    let _turn = ctx.journal().turn.read().await;
    let command = Open { fence: ctx.running().fence(), waitpoint, step: Some(place) };
    let mut pause = PAUSE.0;
    loop {
        match ctx.fabric().link().open_waitpoint(command.clone()).await {
            Ok(it) => {
                let (id, expires_at, token) = (it.id, it.expires_at, Some(it.token));
                return Ok(OpenWaitpoint { ctx: ctx.clone(), name, id, expires_at, token });
            }
            Err(Failure::Busy { .. } | Failure::Unavailable(_) | Failure::OutcomeUnknown) => {}
            Err(failure) => return Err(ctx.refused(failure)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}
