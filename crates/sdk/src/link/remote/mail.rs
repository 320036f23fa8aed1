//! Waitpoints, signals, steps, output and keys.

use std::sync::Arc;

use ff_api::fields::Why;
use ff_api::mail::Rotation;
use ff_api::record::{KeyRecord, Keys, Opened, Signals, Steps, StreamRecord, Waitpoints};
use ff_api::task::OpeningWaitpoint;
use ff_api::time::Span;
use ff_core::commands::{OpenWaitpoint, SendSignal};
use ff_core::query::{FramePageAsk, WaitpointPage, WaitpointPageAsk};
use ff_core::stream::{Frame, Stream};
use ff_core::suspension::{Signal, TokenText, WaitpointId};
use ff_core::{ExecutionId, Ms, Reply};
use ff_engine::{Failure, OpenedWaitpoint, Signalled, StepPage};

use super::http::Call;
use super::query::{Query, waitpoint_filter};
use super::routes::of_waitpoint;
use super::{Remote, post};
use crate::KeyInfo;

impl Remote {
    pub async fn open_waitpoint(&self, command: OpenWaitpoint) -> Result<OpenedWaitpoint, Failure> {
        self.admit(&command.clone().into())?;
        let call = post("/v1/tasks/waitpoint", &OpeningWaitpoint::from(command))?;
        self.change(call).await.map(opened)
    }

    pub async fn issue_token(
        &self,
        waitpoint: WaitpointId,
        actor: &str,
        cause: &str,
    ) -> Result<OpenedWaitpoint, Failure> {
        let why = Why { actor: Some(actor.to_owned()), cause: Some(cause.to_owned()) };
        self.change(post(of_waitpoint(waitpoint, "token"), &why)?).await.map(opened)
    }

    pub async fn signal(&self, signal: SendSignal) -> Result<Signalled, Failure> {
        match self.execute(signal.into()).await? {
            Reply::Signalled { execution, effect, number } => Ok(Signalled { execution, effect, number }),
            other => Err(Failure::Internal(format!("an answer to another question: {other:?}"))),
        }
    }

    pub async fn waitpoints(&self, ask: WaitpointPageAsk) -> Result<WaitpointPage, Failure> {
        let query = waitpoint_filter(Query::new("/v1/waitpoints"), &ask.filter)
            .order(ask.order)
            .maybe("cursor", ask.after)
            .set("limit", ask.limit)
            .set("scan", ask.scan_max);
        let Waitpoints { waitpoints, next } = self.question(Call::get(query.path())).await?;
        Ok(WaitpointPage { waitpoints, next })
    }

    pub async fn signals(&self, id: ExecutionId, after: u32, limit: usize) -> Result<Vec<Signal>, Failure> {
        let query =
            Query::new(format!("/v1/executions/{id}/signals")).set("after", after).set("limit", limit);
        let found: Signals = self.question(Call::get(query.path())).await?;
        Ok(found.signals)
    }

    pub async fn steps(&self, id: ExecutionId, after: usize, limit: usize) -> Result<StepPage, Failure> {
        let query = Query::new(format!("/v1/executions/{id}/steps")).set("after", after).set("limit", limit);
        let Steps { steps, next_after: next } = self.question(Call::get(query.path())).await?;
        Ok(StepPage { steps, next })
    }

    pub async fn frames(&self, ask: FramePageAsk) -> Result<Vec<Frame>, Failure> {
        let query = Query::new(format!("/v1/executions/{}/stream", ask.execution))
            .set("attempt", ask.attempt)
            .order(ask.order)
            .set("after", ask.after)
            .set("limit", ask.limit)
            .set("bytes", ask.bytes);
        let found: Option<StreamRecord> = self.find(Call::get(query.path())).await?;
        Ok(found.map_or(Vec::new(), |it| it.frames))
    }

    pub async fn stream(&self, id: ExecutionId) -> Result<Option<Arc<Stream>>, Failure> {
        let query = Query::new(format!("/v1/executions/{id}/stream")).set("limit", 0);
        let found: Option<StreamRecord> = self.find(Call::get(query.path())).await?;
        Ok(found.and_then(|it| it.stream))
    }

    pub async fn rotate_key(&self, grace_ms: Ms, actor: &str, cause: &str) -> Result<KeyInfo, Failure> {
        let grace_ms = Some(Span(grace_ms));
        let rotation = Rotation { grace_ms, actor: Some(actor.to_owned()), cause: Some(cause.to_owned()) };
        self.change(post("/v1/keys/rotate", &rotation)?).await.map(key)
    }

    pub async fn signing_keys(&self) -> Result<Vec<KeyInfo>, Failure> {
        let Keys { keys } = self.question(Call::get("/v1/keys")).await?;
        Ok(keys.into_iter().map(key).collect())
    }
}

fn key(KeyRecord { id, created_at, retires_at }: KeyRecord) -> KeyInfo {
    KeyInfo { id, created_at, retires_at }
}

fn opened(Opened { waitpoint: id, expires_at, token }: Opened) -> OpenedWaitpoint {
    OpenedWaitpoint { id, expires_at, token: TokenText::from_answer(token) }
}
