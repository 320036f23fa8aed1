//! Sending signals.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use ff_core::commands::{SendSignal, To};
use ff_core::name::SignalName;
use ff_core::suspension::{Digest, WaitpointId};
use ff_core::{ExecutionId, Payload};
use ff_engine::{Engine, Failure, Signalled};
use serde::Serialize;

use crate::submission::JSON_TYPE;
use crate::{Error, Fabric};

impl Fabric {
    /// Sends a signal to an execution by name. It is kept if nobody waits for it yet.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::Effect;
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let run = fabric.submit("ship", &7).await?;
    /// let send = || fabric.signal(run.id(), "paid").payload(&500).source("bank").idempotency_key("transfer-1");
    /// assert_eq!(send().await?.effect, Effect::Buffered);
    /// assert_eq!(send().await?.effect, Effect::Duplicate);
    /// assert_eq!(run.signals().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn signal(&self, execution: ExecutionId, name: &str) -> SignalCall {
        SignalCall::new(self, Ok(To::Execution(execution))).name(name)
    }

    /// Sends a signal to a waitpoint by its id.
    pub fn signal_waitpoint(&self, waitpoint: WaitpointId) -> SignalCall {
        SignalCall::new(self, Ok(To::Waitpoint(waitpoint)))
    }

    /// Sends a signal to the waitpoint that a token is good for. Whatever is wrong with a token, the answer is the
    /// same: `token_refused`.
    pub fn signal_with_token(&self, token: &str) -> SignalCall {
        SignalCall::new(self, Engine::token_target(token).map_err(Error::from))
    }
}

/// A signal to be sent, which is sent when it is awaited.
#[derive(Clone, Debug)]
#[must_use = "a signal is sent when it is awaited"]
pub struct SignalCall {
    fabric: Fabric,
    signal: Result<Box<SendSignal>, Error>,
}

impl SignalCall {
    fn new(fabric: &Fabric, to: Result<To, Error>) -> SignalCall {
        let signal = to.map(|to| {
            let payload = Payload { content_type: JSON_TYPE.clone(), bytes: "null".into() };
            Box::new(SendSignal { payload, ..SendSignal::new(to) })
        });
        SignalCall { fabric: fabric.clone(), signal }
    }

    /// Sets something that was checked; the first thing that does not fit is what the sender hears.
    fn set<T>(mut self, value: Result<T, Error>, put: impl FnOnce(&mut SendSignal, T)) -> SignalCall {
        match (&mut self.signal, value) {
            (Ok(signal), Ok(value)) => put(signal, value),
            (Ok(_), Err(error)) => self.signal = Err(error),
            (Err(_), _) => {}
        }
        self
    }

    /// What it is called; a signal to a waitpoint has the waitpoint's name otherwise.
    pub fn name(self, name: &str) -> SignalCall {
        self.set(SignalName::parse(name).map_err(Error::from), |signal, name| signal.name = Some(name))
    }

    /// What it carries, as JSON; up to 64 KiB.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> SignalCall {
        let bytes = serde_json::to_vec(payload)
            .map_err(|error| Error::invalid("payload", format!("cannot become JSON: {error}")));
        self.set(bytes, |signal, bytes| signal.payload.bytes = bytes.into())
    }

    /// What it carries, as it is.
    pub fn payload_bytes(self, content_type: &str, bytes: impl Into<bytes::Bytes>) -> SignalCall {
        let payload = Payload { content_type: content_type.into(), bytes: bytes.into() };
        self.set(Ok(payload), |signal, payload| signal.payload = payload)
    }

    /// Who sends it.
    pub fn source(self, source: &str) -> SignalCall {
        self.set(Ok(source), |signal, source| signal.source = Some(source.into()))
    }

    /// What it belongs to in the sender's books.
    pub fn correlation(self, text: &str) -> SignalCall {
        self.set(Ok(text), |signal, text| signal.correlation = Some(text.into()))
    }

    /// The same key again within a day, for the same execution, is a duplicate and changes nothing. Without one, a
    /// signal whose answer is lost for good ends with `outcome_unknown` instead of being sent again.
    pub fn idempotency_key(self, key: &str) -> SignalCall {
        self.set(Ok(key), |signal, key| signal.key = Some(key.into()))
    }

    /// The action that the sender has seen; a waitpoint for another one does not take it.
    pub fn action(self, action: &[u8]) -> SignalCall {
        self.digest(Digest::of(action))
    }

    /// As [`action`](Self::action), by the SHA-256 of it.
    pub fn digest(self, digest: Digest) -> SignalCall {
        self.set(Ok(digest), |signal, digest| signal.digest = Some(digest))
    }

    async fn send(self) -> Result<Signalled, Error> {
        let SignalCall { fabric, signal } = self;
        let signal = *signal?;
        let mut patience = fabric.patience();
        loop {
            match fabric.link().signal(signal.clone()).await {
                Err(Failure::OutcomeUnknown) if signal.key.is_none() => return Err(Error::OutcomeUnknown),
                Err(failure) if patience.lasts_for(&failure) => patience.pause().await,
                result => return result.map_err(Error::from),
            }
        }
    }
}

impl IntoFuture for SignalCall {
    type Output = Result<Signalled, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
