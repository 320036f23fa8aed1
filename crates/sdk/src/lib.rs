#![doc = include_str!("../docs/guide.md")]
//!
//! # Map
//!
//! | to read about | open |
//! |---|---|
//! | connecting | [`connect`], [`connect_with`], [`Options`] |
//! | submitting and waiting | [`Fabric::submit`], [`Submission`], [`Run`] |
//! | finding, explaining | [`Fabric::search`], [`Fabric::explain`], [`Fabric::count`] |
//! | graphs of work | [`Fabric::flow`], [`FlowBuilder`], [`Node`], [`FlowRun`], [`Fabric::flows`] |
//! | changing the course of work | [`Fabric::cancel`], [`Fabric::replay`], [`Operation`], [`LaneHandle`] |
//! | the same for many executions | [`Fabric::bulk`], [`NewBulk`], [`BulkRun`] |
//! | how a server is | [`Probe`] |
//! | who may call a server, where it delivers events | [`Fabric::create_token`], [`Fabric::set_webhook`] |
//! | events and states as they happen | [`Fabric::events`], [`Fabric::watch`] |
//! | running work | [`Worker`], [`Context`], [`Outcome`], [`TaskFailure`] |
//! | steps that are not run twice, sleeping, children | [`Context::step`], [`Context::sleep`], [`Context::child`] |
//! | waiting for signals and approvals | [`Context::wait_for_signal`], [`Context::suspend`], [`Context::waitpoint`] |
//! | sending signals, the inbox, tokens | [`Fabric::signal`], [`Fabric::waitpoints`], [`Fabric::issue_token`] |
//! | live output | [`Context::emit`], [`Context::summary`], [`Run::tail`], [`Run::frames`] |
//! | tests that move the clock | [`testing`] |

mod about;
mod access;
mod bulk;
mod context;
mod durable;
mod error;
mod events;
mod fabric;
mod failure;
mod flow;
mod handler;
mod letter;
mod link;
mod listing;
mod mail;
mod operation;
mod options;
mod output;
mod probe;
mod run;
mod signals;
mod submission;
pub mod testing;
mod time;
mod url;
mod webhook;
mod worker;

pub use about::About;
pub use access::{NewToken, Role, TokenInfo};
pub use bulk::{Bulk, BulkInfo, BulkPreview, BulkRun, NewBulk};
pub use context::Context;
pub use durable::{
    Child, ChildCall, OpenWaitpoint, OrTimeout, Received, Resumed, RetriedStep, StartChild, StepCall,
    Suspending, WaitForSignal, WaitpointBuilder,
};
pub use error::{Error, NotCompleted};
pub use events::{Events, Seen, Watch};
pub use fabric::{Count, Fabric, connect, connect_with, open_store};
pub use failure::{Fatal, RetryAfter, Retryable, TaskFailure};
pub use flow::{
    ChildFlow, Culprit, Drawing, Expansion, FlowBuilder, FlowCancelled, FlowList, FlowNotCompleted, FlowPage,
    FlowRun, Growth, Node, Upstream, Upstreams,
};
pub use handler::{IntoOutcome, Outcome};
pub use letter::Letter;
pub use link::Tail;
pub use listing::{List, Page, PageCursor};
pub use mail::{KeyInfo, SignalCall, WaitpointList, WaitpointPage};
pub use operation::{Cancelled, LaneHandle, LaneSettings, Operation};
pub use options::Options;
pub use output::Frames;
pub use probe::Probe;
pub use run::{Run, result_of};
pub use signals::asked_to_end;
pub use submission::Submission;
pub use time::TestClock;
pub use webhook::{DeliveryInfo, WebhookInfo, WebhookSettings};
pub use worker::{Stopped, Worker};

pub use ff_core::attempt::{Attempt, ErrorClass, Progress, TaskError};
pub use ff_core::event::{Event, Fact, Family};
pub use ff_core::flow::{
    CancelPolicy, Edge, EdgeKey, EdgeState, FlowState, Group, GroupState, Join, On, OnSatisfied,
};
pub use ff_core::inbox::{DeadLetter, Posted};
pub use ff_core::lane::{Lane, LaneMode};
pub use ff_core::limits::Limits;
pub use ff_core::policy::{Backoff, Jitter, LeaseLoss, Policy};
pub use ff_core::query::{CountKey, Filter, FlowFilter, Order};
pub use ff_core::state::{AttemptOutcome, Reason};
pub use ff_core::step::{Step, StepKey, StepKind};
pub use ff_core::stream::{Frame, FrameMode, Summary};
pub use ff_core::suspension::{
    Condition, Digest, Distinct, Effect, Ignored, Match, OnTimeout, ResumedBy, Signal, TokenText,
    WaitpointEntry, WaitpointId,
};
pub use ff_core::worker::{WorkerInstance, WorkerMode};
pub use ff_core::{
    Capability, Execution, ExecutionId, Flow, FlowId, InstanceId, Kind, LaneName, Ms, Namespace, Payload,
    PublicState, Rejection, WorkerName,
};
pub use ff_engine::explain::{Explanation, Gate};
pub use ff_engine::flows::{Direction, EdgePage, FlowDescription, Graph};
pub use ff_engine::machine::MachineStats;
pub use ff_engine::{
    Cursor, Ended, EngineConfig, EventFilter, OpenedWaitpoint, Output, Place, ShutdownReport, Signalled,
    Start,
};
pub use ff_store_sqlite::Synchronous;

/// The examples of the documents are run like any other.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/durable-steps.md")]
    struct DurableSteps;
    #[doc = include_str!("../../../docs/suspension.md")]
    struct Suspension;
    #[doc = include_str!("../../../docs/streams.md")]
    struct Streams;
}
