//! Work to be submitted.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use ff_core::class::Capabilities;
use ff_core::commands::{Create, When};
use ff_core::payload::JSON;
use ff_core::policy::Backoff;
use ff_core::rejection::Invalid;
use ff_core::tags::Tags;
use ff_core::{Capability, Command, ExecutionId, Kind, LaneName, Ms, Namespace, Payload, Policy, Reply};
use ff_engine::Failure;
use serde::Serialize;

use crate::fabric::odd_reply;
use crate::time::ms;
use crate::{Error, Fabric, Run};

/// How many are sent at once; more gain nothing and make others wait.
const BATCH: usize = 1_000;

pub(crate) static JSON_TYPE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(JSON));

/// What is to be run, and how: made by [`Fabric::submit`], or by itself for
/// [`submit_many`](Fabric::submit_many).
///
/// Everything has a default but the kind and the input. A value that does not fit is refused, named, when the
/// submission is sent; nothing of it is stored then.
///
/// The execution's id is made here, before anything is sent. A submission that is repeated because its answer
/// was lost therefore never runs twice.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # use std::time::Duration;
/// # let fabric = flowfabric::connect("memory:").await?;
/// let error = fabric.submit("charge", &7).priority(101).await.unwrap_err();
/// assert_eq!(error.to_string(), "priority is 101; allowed are -100 to 100");
///
/// let run = fabric.submit("charge", &7).deadline(Duration::from_secs(3600)).await?;
/// # let _ = run; Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a submission is sent when it is awaited"]
pub struct Submission<F = ()> {
    fabric: F,
    draft: Result<Box<Draft>, Error>,
}

#[derive(Clone, Debug)]
struct Draft {
    id: Option<ExecutionId>,
    kind: Kind,
    input: Payload,
    namespace: Namespace,
    lane: LaneName,
    priority: i8,
    start: Option<When>,
    deadline: Option<When>,
    capabilities: Vec<Capability>,
    tags: Vec<(String, String)>,
    idempotency_key: Option<Box<str>>,
    policy: Policy,
}

impl Submission {
    /// A submission whose input becomes JSON.
    pub fn new<In: Serialize + ?Sized>(kind: &str, input: &In) -> Submission {
        let bytes = serde_json::to_vec(input);
        let bytes = bytes.map_err(|error| Error::invalid("input", format!("cannot become JSON: {error}")));
        Submission::from_payload(
            kind,
            bytes.map(|bytes| Payload { content_type: JSON_TYPE.clone(), bytes: bytes.into() }),
        )
    }

    /// A submission whose input is bytes of any kind.
    pub fn of_bytes(kind: &str, content_type: &str, bytes: impl Into<Bytes>) -> Submission {
        Submission::from_payload(kind, Ok(Payload { content_type: content_type.into(), bytes: bytes.into() }))
    }

    fn from_payload(kind: &str, input: Result<Payload, Error>) -> Submission {
        let draft = |input| -> Result<Box<Draft>, Error> {
            Ok(Box::new(Draft {
                id: None,
                kind: Kind::parse(kind)?,
                input,
                namespace: Namespace::default(),
                lane: LaneName::default(),
                priority: 0,
                start: None,
                deadline: None,
                capabilities: Vec::new(),
                tags: Vec::new(),
                idempotency_key: None,
                policy: Policy::default(),
            }))
        };
        Submission { fabric: (), draft: input.and_then(draft) }
    }

    pub(crate) fn on(self, fabric: Fabric) -> Submission<Fabric> {
        Submission { fabric, draft: self.draft }
    }
}

impl<F> Submission<F> {
    /// Sets something that was checked; the first thing that does not fit is what the sender hears.
    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut Draft, T)) -> Self {
        match (&mut self.draft, value) {
            (Ok(draft), Ok(value)) => put(draft, value),
            (Ok(_), Err(invalid)) => self.draft = Err(invalid.into()),
            (Err(_), _) => {}
        }
        self
    }

    fn put(mut self, put: impl FnOnce(&mut Draft)) -> Self {
        if let Ok(draft) = &mut self.draft {
            put(draft);
        }
        self
    }

    /// The queue it waits in; `default` otherwise.
    pub fn lane(self, name: &str) -> Self {
        self.set(LaneName::parse(name), |draft, lane| draft.lane = lane)
    }

    /// Whose work it is; `default` otherwise.
    pub fn namespace(self, name: &str) -> Self {
        self.set(Namespace::parse(name), |draft, namespace| draft.namespace = namespace)
    }

    /// From -100 to 100; higher is sooner. A point is a head start of a minute unless the lane says otherwise.
    pub fn priority(self, priority: i32) -> Self {
        let fits = i8::try_from(priority).ok().filter(|it| (-100..=100).contains(it));
        let problem = || Invalid::new("priority", format!("is {priority}; allowed are -100 to 100"));
        self.set(fits.ok_or_else(problem), |draft, priority| draft.priority = priority)
    }

    /// Not before so long from now.
    pub fn delay(self, delay: Duration) -> Self {
        self.put(|draft| draft.start = Some(When::In(ms(delay))))
    }

    /// Not before a time, in milliseconds since the Unix epoch.
    pub fn run_at(self, at: Ms) -> Self {
        self.put(|draft| draft.start = Some(When::At(at)))
    }

    /// It ends `expired` if it has not ended so long from now, in whatever state it is then.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.put(|draft| draft.deadline = Some(When::In(ms(deadline))))
    }

    /// As [`deadline`](Self::deadline), at a time in milliseconds since the Unix epoch.
    pub fn deadline_at(self, at: Ms) -> Self {
        self.put(|draft| draft.deadline = Some(When::At(at)))
    }

    /// Only workers that have this word may run it. May be given several times.
    pub fn capability(self, word: &str) -> Self {
        self.set(Capability::parse(word), |draft, word| draft.capabilities.push(word))
    }

    /// A word to find it by.
    pub fn tag(self, key: &str, value: &str) -> Self {
        self.put(|draft| draft.tags.push((key.to_owned(), value.to_owned())))
    }

    /// The same key in the same namespace, within a day, gives the first execution instead of a second one.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.put(|draft| draft.idempotency_key = Some(key.into()))
    }

    /// An id made elsewhere. Without one, the SDK makes it.
    pub fn id(self, id: ExecutionId) -> Self {
        self.put(|draft| draft.id = Some(id))
    }

    /// How often it is tried at most; 1 means never again.
    pub fn attempts(self, count: u32) -> Self {
        self.put(|draft| draft.policy.max_attempts = count)
    }

    /// The pauses between attempts.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.put(|draft| draft.policy.backoff = backoff)
    }

    /// How long one attempt may run; then it counts as failed.
    pub fn attempt_timeout(self, time: Duration) -> Self {
        self.put(|draft| draft.policy.attempt_timeout_ms = Some(ms(time)))
    }

    /// How long it may wait for a worker each time it is ready; then it ends `expired`.
    pub fn schedule_to_start(self, time: Duration) -> Self {
        self.put(|draft| draft.policy.schedule_to_start_ms = Some(ms(time)))
    }

    /// How long a worker that is not heard of keeps it. Workers renew their leases by themselves.
    pub fn lease(self, time: Duration) -> Self {
        self.put(|draft| draft.policy.lease_ms = ms(time))
    }

    /// Everything about retries and timeouts at once; replaces what was set before.
    pub fn policy(self, policy: Policy) -> Self {
        self.put(|draft| draft.policy = policy)
    }

    /// The name of the task, unless it does not fit.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.draft.as_ref().ok().map(|draft| draft.kind.as_str())
    }

    /// The first thing that did not fit.
    pub(crate) fn problem(&self) -> Option<&Error> {
        self.draft.as_ref().err()
    }

    /// The command that makes it a member of a flow, under an id that was made for it.
    pub(crate) fn member(self, fabric: &Fabric, id: ExecutionId) -> Result<Create, Error> {
        let create =
            Self::create(self.draft.map(|draft| Box::new(Draft { id: Some(id), ..*draft })), fabric)?;
        Ok(Create { fresh: true, ..create })
    }

    /// The command that creates it, with the id it keeps however often it is sent.
    fn create(draft: Result<Box<Draft>, Error>, fabric: &Fabric) -> Result<Create, Error> {
        let draft = *draft?;
        let key = draft.idempotency_key.as_deref();
        let new_id = || fabric.link().new_execution_id(fabric.wall(), &draft.namespace, key);
        let tags = draft.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Ok(Create {
            fresh: draft.id.is_none(),
            id: draft.id.unwrap_or_else(new_id),
            tags: Tags::default().edited(tags, [], fabric.limits())?,
            namespace: draft.namespace,
            kind: draft.kind,
            lane: draft.lane,
            priority: draft.priority,
            start: draft.start,
            deadline: draft.deadline,
            capabilities: Capabilities::new(draft.capabilities),
            idempotency_key: draft.idempotency_key,
            policy: draft.policy,
            input: draft.input,
        })
    }
}

impl IntoFuture for Submission<Fabric> {
    type Output = Result<Run, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Submission { fabric, draft } = self;
            let create = Self::create(draft, &fabric)?;
            let reply = fabric.command(create.into()).await?;
            created(&fabric, &reply)
        })
    }
}

fn created(fabric: &Fabric, reply: &Reply) -> Result<Run, Error> {
    match reply {
        Reply::Created { execution, existing } => Ok(Run::new(fabric.clone(), *execution, *existing)),
        reply => Err(odd_reply(reply)),
    }
}

/// Many submissions on their way: what is answered, and what has still to be sent.
pub(crate) struct Many<'a> {
    fabric: &'a Fabric,
    results: Vec<Option<Result<Run, Error>>>,
    left: VecDeque<(usize, Command)>,
}

impl<'a> Many<'a> {
    pub fn new(fabric: &'a Fabric, submissions: Vec<Submission>) -> Many<'a> {
        let mut many = Many { fabric, results: Vec::with_capacity(submissions.len()), left: VecDeque::new() };
        for (n, submission) in submissions.into_iter().enumerate() {
            let create = Submission::<()>::create(submission.draft, fabric);
            many.results.push(None);
            match create {
                Ok(create) => many.left.push_back((n, create.into())),
                Err(error) => many.results[n] = Some(Err(error)),
            }
        }
        many
    }

    /// Sends all of it in batches, and what was not taken in again, for a while.
    pub async fn send(mut self) -> Vec<Result<Run, Error>> {
        let mut patience = self.fabric.patience();
        while !self.left.is_empty() {
            let batch: Vec<_> = self.left.drain(..self.left.len().min(BATCH)).collect();
            let commands = batch.iter().map(|(_, command)| command.clone()).collect();
            let replies = self.fabric.link().execute_all(commands).await;
            let (before, sent) = (self.left.len(), batch.len());
            for ((n, command), reply) in batch.into_iter().zip(replies) {
                match reply {
                    Err(failure) if patience.lasts_for(&failure) => {
                        self.left.push_back((n, command.repeated()))
                    }
                    reply => self.answer(n, reply),
                }
            }
            let back = self.left.len() - before;
            if back > 0 {
                patience.pause_after(sent - back).await;
            }
        }
        self.results.into_iter().map(|result| result.unwrap_or(Err(Error::ShuttingDown))).collect()
    }

    fn answer(&mut self, n: usize, reply: Result<Reply, Failure>) {
        let result = reply.map_err(Error::from).and_then(|reply| created(self.fabric, &reply));
        self.results[n] = Some(result);
    }
}
