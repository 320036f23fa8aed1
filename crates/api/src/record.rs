//! Stored records as they are, for programs that share the rules with the server.
//!
//! A caller that sends `Accept: application/vnd.flowfabric.record+json` gets, instead of the public document:
//!
//! | route | record |
//! |---|---|
//! | anything that carries out one command | [`Reply`](ff_core::Reply) |
//! | a batch of commands | [`Outcomes`] |
//! | a claim | [`Tasks`] |
//! | a heartbeat | [`BeatRecord`] |
//! | a result | [`Ended`] |
//! | a read of executions, flows, edges, steps, signals, waitpoints, keys, frames, streams, lanes, workers, dead letters | the stored types, in the struct of this module named after the route |
//!
//! Records may change with every release; a server says in `/v1/info` which [`VERSION`] it speaks, and a caller that
//! shares another one must not go on.

use std::sync::Arc;

use ff_core::attempt::Attempt;
use ff_core::event::Event;
use ff_core::flow::{Edge, Flow};
use ff_core::inbox::DeadLetter;
use ff_core::lane::Lane;
use ff_core::query::CountKey;
use ff_core::reply::Renewal;
use ff_core::step::Step;
use ff_core::stream::{Frame, Stream};
use ff_core::suspension::{Signal, WaitpointEntry, WaitpointId};
use ff_core::worker::WorkerInstance;
use ff_core::{Execution, ExecutionId, FlowId, Ms, Payload, Reply};
use serde::{Deserialize, Serialize};

use crate::Problem;

/// The media type of records.
pub const RECORD_JSON: &str = "application/vnd.flowfabric.record+json";

/// Grows when a record changes in a way that an older reader would misread.
pub const VERSION: u32 = 1;

macro_rules! records {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty),+ $(,)? })+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $name { $(pub $field: $type),+ }
    )+ };
}

/// What became of one command of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done(Reply),
    Refused(Problem),
}

/// What became of one lease of a heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewed {
    Until(Renewal),
    Refused(Problem),
}

records! {
    /// What became of the commands of a batch, in order.
    Outcomes { outcomes: Vec<Outcome> }
    /// One task with everything its worker needs.
    TaskRecord { execution: Arc<Execution>, input: Payload, steps: Vec<Step>, signals: Vec<Signal> }
    Tasks { tasks: Vec<TaskRecord> }
    BeatRecord { mode: String, leases: Vec<Renewed>, disturbed: Vec<ExecutionId> }
    /// An execution that has ended; without `execution` it has not, and should be asked for again.
    Ended { execution: Option<Arc<Execution>>, result: Option<Payload> }
    ExecutionRecord { execution: Arc<Execution> }
    PayloadRecord { payload: Option<Payload> }
    Executions { executions: Vec<Execution>, next: Option<ExecutionId> }
    Attempts { attempts: Vec<Attempt> }
    Counts { counts: Vec<(CountKey, u64)> }
    FlowRecord { flow: Arc<Flow>, ended: bool }
    Flows { flows: Vec<Flow>, next: Option<FlowId> }
    FlowMembers { flow: Arc<Flow>, members: Vec<Arc<Execution>>, next: Option<u64> }
    FlowGraph { flow: Arc<Flow>, members: Vec<Arc<Execution>>, edges: Vec<Arc<Edge>>, more: bool }
    Edges { edges: Vec<Arc<Edge>>, next: Option<u64> }
    EdgeRecord { edge: Option<Arc<Edge>> }
    Steps { steps: Vec<Step>, next_after: Option<usize> }
    Signals { signals: Vec<Signal> }
    Waitpoints { waitpoints: Vec<WaitpointEntry>, next: Option<WaitpointId> }
    /// A waitpoint that was opened. The token is the one thing here that is secret.
    Opened { waitpoint: WaitpointId, expires_at: Option<Ms>, token: String }
    StreamRecord { stream: Option<Arc<Stream>>, frames: Vec<Frame> }
    Lanes { lanes: Vec<Arc<Lane>> }
    Workers { workers: Vec<Arc<WorkerInstance>> }
    EventRecord { partition: u16, event: Event }
    /// A signing key without its secret.
    KeyRecord { id: u32, created_at: Ms, retires_at: Option<Ms> }
    Keys { keys: Vec<KeyRecord> }
    LetterRecord { partition: u16, letter: DeadLetter }
    Letters { letters: Vec<DeadLetter>, next_after: Option<u64> }
}
