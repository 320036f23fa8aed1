//! What a fabric talks to, with the calls that the SDK makes of it.
//!
//! Everything above asks a [`Link`], so that it is the same wherever the engine runs.

mod access;
mod bulk;
pub(crate) mod remote;
mod subscription;
mod tail;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use ff_core::attempt::Attempt;
use ff_core::commands::{OpenWaitpoint, Poll, SendSignal};
use ff_core::execution::Fence;
use ff_core::flow::{Edge, EdgeKey};
use ff_core::inbox::DeadLetter;
use ff_core::lane::Lane;
use ff_core::limits::Limits;
use ff_core::payload::Slot;
use ff_core::query::{
    CountKey, Filter, FlowPage, FlowPageAsk, FramePageAsk, Page, PageAsk, WaitpointPage, WaitpointPageAsk,
};
use ff_core::reply::Renewal;
use ff_core::stream::{Frame, Stream};
use ff_core::suspension::{Signal, WaitpointId};
use ff_core::worker::WorkerInstance;
use ff_core::{Command, Execution, ExecutionId, Flow, FlowId, InstanceId, Ms, PartitionId, Payload, Reply};
use ff_engine::explain::Explanation;
use ff_engine::flows::{Direction, EdgePage, FlowDescription, Graph};
use ff_engine::machine::MachineStats;
use ff_engine::{
    Ended, Engine, EventFilter, Failure, LetterPage, OpenedWaitpoint, Place, ShutdownReport, Signalled,
    Start, StepPage, Task,
};
use tokio::sync::mpsc;

use self::remote::{Reading, Remote};
pub(crate) use subscription::Subscription;
pub use tail::Tail;

use crate::{Error, KeyInfo};

/// Where the engine of a fabric is.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    /// In this process.
    Embedded(Engine),
    /// Behind a server.
    Remote(Arc<Remote>),
}

/// Calls that every kind of link has under the same name.
macro_rules! calls {
    ($(async fn $name:ident(&self $(, $given:ident: $type:ty)* $(,)?) -> $answer:ty;)+) => {
        impl Link {
            $(pub async fn $name(&self $(, $given: $type)*) -> $answer {
                match self {
                    Link::Embedded(engine) => engine.$name($($given),*).await,
                    // On the heap, so that calls in this process stay as small as they are.
                    Link::Remote(remote) => Box::pin(remote.$name($($given),*)).await,
                }
            })+
        }
    };
}

calls! {
    async fn execute_all(&self, commands: Vec<Command>) -> Vec<Result<Reply, Failure>>;
    async fn poll(&self, poll: Arc<Poll>, max: usize, wait: Duration) -> Result<Vec<Task>, Failure>;

    async fn get(&self, id: ExecutionId) -> Result<Option<Arc<Execution>>, Failure>;
    async fn payload(&self, id: ExecutionId, slot: Slot) -> Result<Option<Payload>, Failure>;
    async fn attempts(&self, id: ExecutionId) -> Result<Vec<Attempt>, Failure>;
    async fn wait(&self, id: ExecutionId) -> Result<Ended, Failure>;
    async fn explain(&self, id: ExecutionId) -> Result<Explanation, Failure>;
    async fn list(&self, ask: PageAsk) -> Result<Page, Failure>;
    async fn count(&self, filter: &Filter) -> Result<(u64, bool), Failure>;
    async fn counts(&self) -> Result<Vec<(CountKey, u64)>, Failure>;
    async fn lanes_and_workers(&self) -> Result<(Vec<Arc<Lane>>, Vec<Arc<WorkerInstance>>), Failure>;

    async fn flow(&self, id: FlowId) -> Result<Option<Arc<Flow>>, Failure>;
    async fn flows(&self, ask: FlowPageAsk) -> Result<FlowPage, Failure>;
    async fn describe_flow(&self, id: FlowId, after: u64, limit: usize) -> Result<FlowDescription, Failure>;
    async fn graph(&self, id: FlowId, members_max: usize) -> Result<Graph, Failure>;
    async fn wait_flow(&self, id: FlowId) -> Result<Arc<Flow>, Failure>;
    async fn flow_result(&self, id: FlowId) -> Result<Payload, Failure>;
    async fn edge(&self, key: EdgeKey) -> Result<Option<Arc<Edge>>, Failure>;
    async fn edges(
        &self, node: ExecutionId, direction: Direction, after: u64, limit: usize,
    ) -> Result<EdgePage, Failure>;

    async fn open_waitpoint(&self, command: OpenWaitpoint) -> Result<OpenedWaitpoint, Failure>;
    async fn issue_token(
        &self, waitpoint: WaitpointId, actor: &str, cause: &str,
    ) -> Result<OpenedWaitpoint, Failure>;
    async fn signal(&self, signal: SendSignal) -> Result<Signalled, Failure>;
    async fn waitpoints(&self, ask: WaitpointPageAsk) -> Result<WaitpointPage, Failure>;
    async fn signals(&self, id: ExecutionId, after: u32, limit: usize) -> Result<Vec<Signal>, Failure>;
    async fn steps(&self, id: ExecutionId, after: usize, limit: usize) -> Result<StepPage, Failure>;
    async fn frames(&self, ask: FramePageAsk) -> Result<Vec<Frame>, Failure>;
    async fn stream(&self, id: ExecutionId) -> Result<Option<Arc<Stream>>, Failure>;

    async fn stats(&self) -> Result<MachineStats, Failure>;
    async fn dead_letter(&self, number: u64) -> Result<Option<(PartitionId, DeadLetter)>, Failure>;
    async fn dead_letters(&self, after: u64, limit: usize) -> Result<LetterPage, Failure>;
}

impl Link {
    pub async fn execute(&self, command: impl Into<Command>) -> Result<Reply, Failure> {
        match self {
            Link::Embedded(engine) => engine.execute(command).await,
            Link::Remote(remote) => Box::pin(remote.execute(command.into())).await,
        }
    }

    /// Renews leases of an instance. A server that has not answered within a time is given up, so that it can be tried again
    /// on another connection.
    pub async fn renew(
        &self,
        instance: InstanceId,
        fences: Vec<Fence>,
        within: Duration,
    ) -> Vec<Result<Renewal, Failure>> {
        match self {
            Link::Embedded(engine) => engine.renew(fences).await,
            Link::Remote(remote) => Box::pin(remote.renew(instance, fences, within)).await,
        }
    }

    /// Forgets the claims of an instance that claims no more; returns what it has been given and does not know of.
    pub fn forget_claims(&self, instance: InstanceId) -> Vec<Fence> {
        match self {
            Link::Embedded(_) => Vec::new(),
            Link::Remote(remote) => remote.forget_claims(instance),
        }
    }

    /// From now on, sends the ids of executions whose lease this instance should look at. `held` says which leases it
    /// holds and knows nothing bad about: what is told while nobody listens is found by them.
    pub fn watch_leases(
        &self,
        instance: InstanceId,
        held: impl Fn() -> Vec<Fence> + Send + Sync + 'static,
    ) -> mpsc::UnboundedReceiver<ExecutionId> {
        match self {
            Link::Embedded(engine) => engine.watch_leases(instance),
            Link::Remote(remote) => remote.watch_leases(instance, held),
        }
    }

    pub async fn subscribe(&self, filter: EventFilter, start: Start) -> Result<Subscription, Error> {
        match self {
            Link::Embedded(engine) => {
                let subscription = engine.subscribe(filter, start).await?;
                Ok(Subscription::Embedded(Box::new(subscription)))
            }
            Link::Remote(remote) => {
                Ok(Subscription::Remote(Box::pin(remote.subscribe(filter, start)).await?))
            }
        }
    }

    pub async fn tail(&self, id: ExecutionId, after: Option<Place>) -> Result<Tail, Failure> {
        match self {
            Link::Embedded(engine) => Ok(Tail::embedded(engine.tail(id, after).await?)),
            Link::Remote(remote) => Ok(Tail::remote(Box::pin(Reading::start(remote, id, after)).await?)),
        }
    }

    // ---- keys ----------------------------------------------------------------------------------------

    pub async fn rotate_key(&self, grace_ms: Ms, actor: &str, cause: &str) -> Result<KeyInfo, Failure> {
        match self {
            Link::Embedded(engine) => Ok(KeyInfo::of(&*engine.rotate_key(grace_ms, actor, cause).await?)),
            Link::Remote(remote) => Box::pin(remote.rotate_key(grace_ms, actor, cause)).await,
        }
    }

    /// All keys, oldest first.
    pub async fn signing_keys(&self) -> Result<Vec<KeyInfo>, Failure> {
        match self {
            Link::Embedded(engine) => {
                Ok(engine.signing_keys().await?.iter().map(|key| KeyInfo::of(key)).collect())
            }
            Link::Remote(remote) => Box::pin(remote.signing_keys()).await,
        }
    }

    // ---- ids -----------------------------------------------------------------------------------------

    /// A number nobody else has drawn.
    pub fn random(&self) -> u64 {
        match self {
            Link::Embedded(engine) => engine.random(),
            Link::Remote(remote) => remote.ids().random(),
        }
    }

    pub fn new_execution_id(&self, now: Ms, namespace: &str, key: Option<&str>) -> ExecutionId {
        match self {
            Link::Embedded(engine) => engine.new_execution_id(now, namespace, key),
            Link::Remote(remote) => remote.ids().execution(now, namespace, key),
        }
    }

    pub fn new_instance_id(&self, now: Ms) -> InstanceId {
        match self {
            Link::Embedded(engine) => engine.new_instance_id(now),
            Link::Remote(remote) => remote.ids().instance(now),
        }
    }

    pub fn new_flow_id(&self, now: Ms) -> FlowId {
        match self {
            Link::Embedded(engine) => engine.new_flow_id(now),
            Link::Remote(remote) => remote.ids().flow(now),
        }
    }

    /// A new id for a member: it lives where its flow does.
    pub fn new_member_id(&self, now: Ms, flow: FlowId) -> ExecutionId {
        ExecutionId::from_parts(now, flow.route(), self.random())
    }

    /// A new id for a child flow: it lives where the flow around it does.
    pub fn new_child_id(&self, now: Ms, flow: FlowId) -> FlowId {
        FlowId::from_parts(now, flow.route(), self.random())
    }

    /// A new id for a child execution: it lives where its parent does.
    pub fn new_child_execution_id(&self, now: Ms, parent: ExecutionId) -> ExecutionId {
        ExecutionId::from_parts(now, parent.route(), self.random())
    }

    // ---- the other side ------------------------------------------------------------------------------

    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Link::Embedded(engine) => Some(engine),
            Link::Remote(_) => None,
        }
    }

    pub fn limits(&self) -> &Limits {
        match self {
            Link::Embedded(engine) => engine.limits(),
            Link::Remote(remote) => remote.limits(),
        }
    }

    /// The process with which a worker on this link ends.
    pub fn server(&self) -> Option<&str> {
        match self {
            Link::Embedded(engine) => Some(engine.server()),
            Link::Remote(_) => None,
        }
    }

    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        match self {
            Link::Embedded(engine) => {
                let report = engine.shutdown(grace).await;
                engine.store().close().await;
                report
            }
            Link::Remote(remote) => remote.shutdown(),
        }
    }
}
