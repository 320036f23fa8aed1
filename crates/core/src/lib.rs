//! The rules of FlowFabric.
//!
//! Everything the system promises about executions, leases, retries, timeouts, flows, lanes and workers is decided
//! here, by [`decide`]: a pure function from a partition's state, a time and a command to a
//! reply and a set of changes. There is no I/O, no clock and no randomness in this crate; time, new ids and
//! random seeds arrive inside commands.
//!
//! | to read about | open |
//! |---|---|
//! | what is stored | [`execution`], [`attempt`], [`lane`], [`worker`], [`agenda`], [`ready`] |
//! | graphs of executions | [`flow`] |
//! | waiting for signals, and who may send them | [`suspension`] |
//! | durable steps, live output | [`step`], [`stream`] |
//! | what servers keep of tokens and webhooks | [`registry`] |
//! | submissions inside an application's own transaction | [`inbox`] |
//! | what can be asked, and the answers | [`commands`], [`reply`], [`rejection`] |
//! | what is written | [`change`], [`event`], and [`fold`] that reads events back into states |
//! | how a batch is decided | [`workspace`] |
//! | limits and validation | [`name`], [`limits`], [`tags`], [`policy`] |

pub mod agenda;
pub mod attempt;
pub mod base64;
pub mod change;
pub mod class;
pub mod commands;
pub mod duration;
pub mod event;
pub mod execution;
pub mod flow;
pub mod fold;
pub mod id;
pub mod inbox;
pub mod key;
pub mod lane;
pub mod limits;
pub mod message;
pub mod name;
pub mod payload;
pub mod policy;
pub mod query;
pub mod ready;
pub mod registry;
pub mod rejection;
pub mod reply;
pub mod state;
pub mod step;
pub mod stream;
pub mod suspension;
pub mod tags;
pub mod worker;
pub mod workspace;

pub use commands::{Command, decide};
pub use execution::Execution;
pub use flow::Flow;
pub use id::{CommitId, ExecutionId, FlowId, InstanceId, PartitionId, Route, ServerId};
pub use name::{Capability, Kind, LaneName, Namespace, WorkerName};
pub use payload::Payload;
pub use policy::Policy;
pub use rejection::Rejection;
pub use reply::Reply;
pub use state::PublicState;
pub use workspace::Workspace;

/// Milliseconds since the Unix epoch on the store's clock, or a length in milliseconds.
pub type Ms = i64;
