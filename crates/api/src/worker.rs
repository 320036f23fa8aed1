//! Workers: registering, claiming, heartbeats.

use ff_core::commands::{Poll, RegisterWorker};
use ff_core::execution::CancelRequest;
use ff_core::name::{Kind, LaneName, Namespace, WorkerName};
use ff_core::rejection::Invalid;
use ff_core::worker::WorkerInstance;
use ff_core::{ExecutionId, InstanceId};

use crate::Problem;
use crate::execution::ByDoc;
use crate::fields::{self, texts};
use crate::task::{Lease, Task};
use crate::time::{Span, Time};

/// How long a worker may be silent unless it says otherwise.
pub const TTL_MS: i64 = 30_000;

request! {
    /// A process that wants to work.
    pub struct Registration {
        /// The name of the worker program.
        #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 128, example = "mailer"))]
        pub name: String,
        /// `default` if none is given.
        #[serde(default)]
        pub lanes: Vec<String>,
        #[serde(default)]
        pub capabilities: Vec<String>,
        pub build: Option<String>,
        /// How long it may be silent before it counts as dead and its tasks go to others.
        pub ttl_ms: Option<Span>,
        /// An id made by the caller, so that a lost answer can be asked for again. The server makes one otherwise.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub id: Option<InstanceId>,
    }
}

impl Registration {
    pub fn command(self, new_id: impl FnOnce() -> InstanceId) -> Result<RegisterWorker, Invalid> {
        let lanes: Result<Vec<LaneName>, Invalid> =
            self.lanes.iter().map(|lane| LaneName::parse(lane)).collect();
        let lanes = lanes?;
        Ok(RegisterWorker {
            instance: self.id.unwrap_or_else(new_id),
            name: WorkerName::parse(&self.name)?,
            lanes: if lanes.is_empty() { vec![LaneName::default()] } else { lanes },
            capabilities: fields::capabilities(&self.capabilities)?,
            build: self.build.map(Into::into),
            server: None,
            owner: None,
            ttl_ms: self.ttl_ms.map_or(TTL_MS, |it| it.0),
        })
    }
}

impl From<RegisterWorker> for Registration {
    fn from(it: RegisterWorker) -> Registration {
        Registration {
            name: it.name.to_string(),
            lanes: texts(it.lanes.iter().map(|lane| lane.as_str())),
            capabilities: texts(it.capabilities.as_slice().iter().map(|it| it.as_str())),
            build: it.build.map(String::from),
            ttl_ms: Some(Span(it.ttl_ms)),
            id: Some(it.instance),
        }
    }
}

answer! {
    /// A worker that is registered.
    pub struct Registered {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub id: InstanceId,
        /// `active`, `draining` or `dead`.
        pub mode: String,
        /// Heartbeats should come at least this often.
        pub heartbeat_ms: i64,
    }
}

request! {
    /// A wish for tasks.
    pub struct Claiming {
        /// The name of the worker program, as it was registered.
        pub name: String,
        /// `default` if none is given.
        #[serde(default)]
        pub lanes: Vec<String>,
        /// The kinds it handles; all if empty.
        #[serde(default)]
        pub kinds: Vec<String>,
        /// The namespaces it wants; all that its token allows if empty.
        #[serde(default)]
        pub namespaces: Vec<String>,
        #[serde(default)]
        pub capabilities: Vec<String>,
        /// How many tasks at most; 1 if it is left out.
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
        pub max: Option<u32>,
        /// How long to wait for the first; at most a minute.
        pub wait_ms: Option<Span>,
        /// One more with each claim: the same number again gives the same tasks again, the next confirms them. What is not
        /// confirmed within five seconds, by the next claim or a heartbeat that names it, goes to others.
        pub poll: Option<u64>,
    }
}

impl Claiming {
    pub fn poll(&self, instance: InstanceId) -> Result<Poll, Invalid> {
        let lanes: Result<Vec<LaneName>, Invalid> =
            self.lanes.iter().map(|lane| LaneName::parse(lane)).collect();
        let lanes = lanes?;
        let kinds: Result<Vec<Kind>, Invalid> = self.kinds.iter().map(|kind| Kind::parse(kind)).collect();
        let namespaces: Result<Vec<Namespace>, Invalid> =
            self.namespaces.iter().map(|name| Namespace::parse(name)).collect();
        Ok(Poll {
            worker: WorkerName::parse(&self.name)?,
            instance,
            lanes: if lanes.is_empty() { vec![LaneName::default()] } else { lanes },
            kinds: kinds?,
            namespaces: namespaces?,
            capabilities: fields::capabilities(&self.capabilities)?,
        })
    }
}

impl From<&Poll> for Claiming {
    fn from(it: &Poll) -> Claiming {
        Claiming {
            name: it.worker.to_string(),
            lanes: texts(it.lanes.iter().map(|lane| lane.as_str())),
            kinds: texts(it.kinds.iter().map(|kind| kind.as_str())),
            namespaces: texts(it.namespaces.iter().map(|it| it.as_str())),
            capabilities: texts(it.capabilities.as_slice().iter().map(|it| it.as_str())),
            max: None,
            wait_ms: None,
            poll: None,
        }
    }
}

answer! {
    /// Tasks that were claimed; none if there was nothing in time.
    pub struct Claimed {
        pub tasks: Vec<Task>,
    }
}

request! {
    /// A sign of life that renews leases and hears of cancels.
    pub struct Beating {
        /// The leases to renew.
        #[serde(default)]
        pub leases: Vec<Lease>,
        /// How long to wait for news about this worker's tasks; answered at once if it is left out.
        pub wait_ms: Option<Span>,
    }
}

answer! {
    /// What became of the leases, in the order in which they were named.
    pub struct Beat {
        /// `active`, `draining` or `dead`.
        pub mode: String,
        pub leases: Vec<RenewedLease>,
        /// Executions whose lease should be looked at: taken away, or to be cancelled. Renew them now.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<uuid::Uuid>))]
        pub disturbed: Vec<ExecutionId>,
    }
}

answer! {
    /// One lease after a heartbeat.
    pub struct RenewedLease {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub execution: ExecutionId,
        /// Until when it lasts, by the server's clock.
        pub expires_at: Option<Time>,
        /// A cancel that was asked for: end the task soon.
        pub cancel: Option<CancelDoc>,
        /// Why it was not renewed: stop the task.
        pub problem: Option<Problem>,
    }
}

answer! {
    /// A cancel that a running worker is asked for.
    pub struct CancelDoc {
        pub by: ByDoc,
        /// When the worker is cut off.
        pub cut_at: Time,
    }
}

impl From<&CancelRequest> for CancelDoc {
    fn from(it: &CancelRequest) -> CancelDoc {
        CancelDoc { by: (&it.cancellation).into(), cut_at: Time(it.cut_at) }
    }
}

answer! {
    /// A worker instance.
    pub struct WorkerDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub id: InstanceId,
        pub name: String,
        pub lanes: Vec<String>,
        pub capabilities: Vec<String>,
        pub build: Option<String>,
        pub mode: String,
        pub registered_at: Time,
        pub expires_at: Option<Time>,
        pub died_at: Option<Time>,
        pub actor: String,
        pub cause: String,
    }
}

impl From<&WorkerInstance> for WorkerDoc {
    fn from(it: &WorkerInstance) -> WorkerDoc {
        WorkerDoc {
            id: it.instance,
            name: it.name.to_string(),
            lanes: texts(it.lanes.iter().map(|lane| lane.as_str())),
            capabilities: texts(it.capabilities.as_slice().iter().map(|it| it.as_str())),
            build: it.build.as_deref().map(str::to_owned),
            mode: it.mode.word().to_owned(),
            registered_at: Time(it.registered_at),
            expires_at: it.expires_at.map(Time),
            died_at: it.died_at.map(Time),
            actor: it.actor.to_string(),
            cause: it.cause.to_string(),
        }
    }
}

answer! {
    /// All worker instances.
    pub struct WorkersDoc {
        pub workers: Vec<WorkerDoc>,
    }
}
