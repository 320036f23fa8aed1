//! An engine in another process, reached over HTTP.
//!
//! | part | does |
//! |---|---|
//! | `address.rs`, `tls.rs`, `http.rs` | connections, requests, answers |
//! | `routes.rs`, `courier.rs` | commands on their way, alone or together |
//! | `query.rs`, `reads.rs`, `flows.rs`, `mail.rs`, `letters.rs` | questions |
//! | `access.rs`, `bulk.rs`, `webhooks.rs` | what servers keep for themselves |
//! | `worker.rs` | claims, heartbeats, news about leases |
//! | `sse.rs`, `live.rs`, `events.rs`, `tail.rs` | what comes as it happens |
//! | `problem.rs` | what a server says in place of an answer |
//! | `traffic.rs` | how much is on its way |
//! | `ids.rs` | new ids |
//! | `asking.rs` | single questions without all of this |

mod access;
mod address;
mod asking;
mod bulk;
mod courier;
mod events;
mod flows;
mod http;
mod ids;
mod letters;
mod live;
mod mail;
mod problem;
mod query;
mod reads;
mod routes;
mod sse;
mod tail;
mod tls;
mod traffic;
mod webhooks;
mod worker;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ff_api::access::InfoDoc;
use ff_api::limits::LimitsDoc;
use ff_api::record::VERSION;
use ff_core::limits::Limits;
use ff_core::{Command, InstanceId, Reply};
use ff_engine::machine::MachineStats;
use ff_engine::{Failure, ShutdownReport, random};
use hyper::Method;
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

pub(crate) use address::Address;
pub(crate) use asking::Asking;
pub(crate) use events::Following;
pub(crate) use tail::Reading;

use self::courier::Courier;
use self::http::{Answer, Call, Http, NoAnswer};
use self::ids::Ids;
use self::routes::Route;
use self::traffic::Traffic;
use self::worker::{Polled, Watchers};
use crate::fabric::Patience;
use crate::{Error, Options};

/// How long a server is asked to wait at once; what takes longer is asked for again.
const WAIT: Duration = Duration::from_secs(30);

/// How long it is at least between two questions for something that is not there yet.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// A server, as the SDK sees it.
#[derive(Debug)]
pub(crate) struct Remote {
    http: Http,
    courier: Courier,
    limits: Limits,
    ids: Ids,
    /// The newest claim of each instance.
    polls: Arc<Mutex<FxHashMap<InstanceId, Polled>>>,
    watchers: Watchers,
    /// Set when this side is shut down.
    closed: watch::Sender<bool>,
    retry_for: Duration,
    traffic: Arc<Traffic>,
}

impl Remote {
    /// Finds out whether there is a server that this SDK can speak to.
    pub async fn connect(address: Address, options: &Options) -> Result<Remote, Error> {
        let http = Http::new(address, token(options).as_deref(), options.ca_file.as_deref())?;
        let (ids, closed) = (Ids::new(random::seed()), watch::Sender::new(false));
        let (courier, limits, polls) = (Courier::new(http.clone()), Limits::default(), Arc::default());
        let retry_for = options.retry_for;
        let (watchers, traffic) = (Watchers::default(), Arc::default());
        let mut remote = Remote { http, courier, limits, ids, polls, watchers, closed, retry_for, traffic };
        let mut patience = Patience::of(retry_for);
        let info = loop {
            match remote.question::<InfoDoc>(Call::get("/v1/info")).await {
                Err(failure) if patience.lasts_for(&failure) => patience.pause().await,
                info => break info?,
            }
        };
        if info.records != VERSION {
            return Err(other_version(&remote.http, &info));
        }
        remote.limits = remote.question::<LimitsDoc>(Call::get("/v1/limits")).await?.rules;
        Ok(remote)
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Ends what is under way here; the server goes on.
    pub fn shutdown(&self) -> ShutdownReport {
        self.closed.send_replace(true);
        ShutdownReport::default()
    }

    /// Those of the server that answers.
    pub async fn info(&self) -> Result<InfoDoc, Failure> {
        self.question(Call::get("/v1/info")).await
    }

    pub async fn stats(&self) -> Result<MachineStats, Failure> {
        self.question(Call::get("/v1/stats")).await
    }

    // ---- asking --------------------------------------------------------------------------------------

    async fn ask(&self, call: Call) -> Result<Answer, NoAnswer> {
        let _on_its_way = self.traffic.enter(call.wait);
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(NoAnswer::Closed),
            answer = self.http.ask(call) => answer,
        }
    }

    /// Asks for something that changes nothing.
    async fn question<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        read(self.asked(call).await?)
    }

    async fn asked(&self, call: Call) -> Result<Answer, Failure> {
        self.ask(call).await.map_err(|none| match none {
            NoAnswer::NotSent(problem) | NoAnswer::Lost(problem) => Failure::Unavailable(problem),
            NoAnswer::Closed => Failure::ShuttingDown,
        })
    }

    /// Asks for something until it is there. However long that takes, a server may be away for a while in between.
    async fn await_answer<T: DeserializeOwned, R>(
        &self,
        call: Call,
        there: impl Fn(T) -> Option<R>,
    ) -> Result<R, Failure> {
        let mut patience = None;
        loop {
            let asked_at = Instant::now();
            match self.question(call.clone()).await.map(&there) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    patience = None;
                    // A server that lets nobody wait is not asked without a pause.
                    tokio::time::sleep(WAIT_MIN.saturating_sub(asked_at.elapsed())).await;
                }
                Err(failure) => {
                    let patience = patience.get_or_insert_with(|| Patience::of(self.retry_for));
                    if !patience.lasts_for(&failure) {
                        return Err(failure);
                    }
                    patience.pause().await;
                }
            }
        }
    }

    /// Asks for something that may be there or not.
    async fn find<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>, Failure> {
        match self.question(call).await {
            Err(Failure::Rejected(ff_core::Rejection::NotFound { .. })) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Asks for a change.
    async fn change<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        read(commanded(self.ask(call).await)?)
    }

    // ---- commands ------------------------------------------------------------------------------------

    pub async fn execute(&self, command: Command) -> Result<Reply, Failure> {
        self.admit(&command)?;
        match Route::of(command)? {
            Route::Alone(call) => self.change(*call).await,
            Route::Together(batch, document) => {
                let _on_its_way = self.traffic.enter(Duration::ZERO);
                let mut closed = self.closed.subscribe();
                tokio::select! {
                    biased;
                    _ = closed.wait_for(|closed| *closed) => Err(Failure::ShuttingDown),
                    reply = self.courier.carry(batch, document) => reply,
                }
            }
            Route::Beat(instance) => self.beat(instance).await,
        }
    }

    /// In the order in which they are given: what comes after one that was not carried out may rest on it, and is not
    /// sent.
    pub async fn execute_all(&self, commands: Vec<Command>) -> Vec<Result<Reply, Failure>> {
        let count = commands.len();
        let mut results = Vec::with_capacity(count);
        let mut commands = commands.into_iter().peekable();
        while let Some(command) = commands.next() {
            let Some(batch) = routes::Batch::of(&command) else {
                results.push(self.execute(command).await);
                if !self.goes_on(&mut results, count) {
                    break;
                }
                continue;
            };
            let mut group = vec![command];
            while let Some(next) = commands.next_if(|it| routes::Batch::of(it) == Some(batch)) {
                group.push(next);
            }
            results.extend(self.execute_group(batch, group).await);
            if !self.goes_on(&mut results, count) {
                break;
            }
        }
        results
    }

    /// Whether the next group may be sent; if not, what is left has the same failure.
    fn goes_on(&self, results: &mut Vec<Result<Reply, Failure>>, count: usize) -> bool {
        let passing = |it: &&Result<Reply, Failure>| matches!(it, Err(failure) if !is_decided(failure));
        let Some(Err(failure)) = results.iter().rev().find(passing).cloned() else { return true };
        results.resize(count, Err(failure));
        false
    }

    /// Commands that go the same way. One that does not fit does not keep the others from being sent.
    async fn execute_group(&self, batch: routes::Batch, group: Vec<Command>) -> Vec<Result<Reply, Failure>> {
        let mut results: Vec<Option<Result<Reply, Failure>>> = vec![None; group.len()];
        let (mut places, mut documents) = (Vec::new(), Vec::new());
        for (n, command) in group.into_iter().enumerate() {
            match self.admit(&command).and_then(|()| Route::of(command)) {
                Ok(Route::Together(_, document)) => {
                    places.push(n);
                    documents.push(document);
                }
                Ok(_) => {}
                Err(failure) => results[n] = Some(Err(failure)),
            }
        }
        let _on_its_way = self.traffic.enter(Duration::ZERO);
        let mut closed = self.closed.subscribe();
        let replies = tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Vec::new(),
            replies = self.courier.carry_all(batch, documents) => replies,
        };
        for (n, reply) in places.into_iter().zip(replies) {
            results[n] = Some(reply);
        }
        results.into_iter().map(|it| it.unwrap_or(Err(Failure::ShuttingDown))).collect()
    }

    /// Checks a command before it costs anything, as the engine does.
    fn admit(&self, command: &Command) -> Result<(), Failure> {
        Ok(command.validate(&self.limits)?)
    }
}

/// The token that is given, or that of the environment.
fn token(options: &Options) -> Option<String> {
    let given = std::env::var("FLOWFABRIC_TOKEN").ok().filter(|it| !it.trim().is_empty());
    options.token.as_ref().map(|it| it.0.clone()).or(given)
}

/// Whether a failure is an answer to the command, and not the lack of one.
fn is_decided(failure: &Failure) -> bool {
    matches!(failure, Failure::Rejected(_) | Failure::Refused { .. } | Failure::Internal(_))
}

/// The answer to a command: if it was lost, or a gateway gave another in its place, the command may have been carried out.
fn commanded(answer: Result<Answer, NoAnswer>) -> Result<Answer, Failure> {
    match answer {
        Ok(answer) if problem::hides_the_outcome(&answer) => {
            tracing::debug!(status = answer.status, "something else answered in place of the server");
            Err(Failure::OutcomeUnknown)
        }
        Ok(answer) => Ok(answer),
        Err(NoAnswer::NotSent(problem)) => Err(Failure::Unavailable(problem)),
        Err(NoAnswer::Lost(problem)) => {
            tracing::debug!(%problem, "the answer to a command was lost");
            Err(Failure::OutcomeUnknown)
        }
        Err(NoAnswer::Closed) => Err(Failure::ShuttingDown),
    }
}

fn read<T: DeserializeOwned>(answer: Answer) -> Result<T, Failure> {
    if !(200..300).contains(&answer.status) {
        return Err(problem::failure(&answer));
    }
    serde_json::from_slice(&answer.body).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::Internal(format!("the server's answer cannot be read: {error}"))
}

fn document<T: Serialize>(document: &T) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(document).map_err(|error| Failure::Internal(format!("cannot become JSON: {error}")))
}

fn post<T: Serialize>(path: impl Into<String>, body: &T) -> Result<Call, Failure> {
    Ok(Call::send(Method::POST, path, document(body)?))
}

fn other_version(http: &Http, info: &InfoDoc) -> Error {
    let (address, server, records) = (http.address(), &info.version, info.records);
    let this = env!("CARGO_PKG_VERSION");
    let detail = format!(
        "the server at {address} is FlowFabric {server} and writes records of version {records}; this SDK is {this} \
         and reads version {VERSION}: use the SDK of the server's release"
    );
    Error::Refused { code: "other_version", detail }
}
