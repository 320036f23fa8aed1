//! Answers to commands that were carried out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::execution::{CancelRequest, Execution, How};
use crate::flow::Flow;
use crate::id::{ExecutionId, PartitionId};
use crate::inbox::Fate;
use crate::registry::{AccessToken, BulkOperation, Webhook};
use crate::rejection::Rejection;
use crate::state::PublicState;
use crate::suspension::{Effect, SigningKey, TokenText, WaitpointId};
use crate::worker::WorkerMode;

/// A message that a global change has sent and that must be applied before the caller is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub to: PartitionId,
    pub number: u64,
}

/// The answer to a command that was carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Created {
        execution: ExecutionId,
        existing: bool,
    },
    Claimed(Vec<Arc<Execution>>),
    Renewed(Vec<Result<Renewal, Rejection>>),
    /// The lease was ended by this call, now or when it was first made.
    LeaseEnded(How),
    /// A worker's remark was noted; a cancel may have been asked for.
    Noted {
        cancel: Option<CancelRequest>,
    },
    Cancelled {
        state: PublicState,
        cut_at: Option<Ms>,
    },
    /// The execution after an operator's change.
    Changed(Arc<Execution>),
    Removed,
    Worker {
        mode: WorkerMode,
        deliveries: Vec<Delivery>,
    },
    Lane {
        lane: Arc<crate::lane::Lane>,
        deliveries: Vec<Delivery>,
    },
    /// A flow as it is after the change; `existing` if the change had been made before.
    Flow {
        flow: Arc<Flow>,
        existing: bool,
    },
    FlowCancelled {
        flow: Arc<Flow>,
        /// Some of its members, in the order in which they were added.
        members: Vec<ExecutionId>,
        /// Where the next page of members starts; absent when there are no more.
        next: Option<u64>,
    },
    /// The policy of a group is what was asked for, now or since before.
    PolicySet {
        already: bool,
    },
    /// A waitpoint is open, with a token for it unless there is no key to sign with.
    WaitpointOpened {
        waitpoint: WaitpointId,
        expires_at: Option<Ms>,
        token: Option<TokenText>,
    },
    /// What a signal did; its number if it was kept.
    Signalled {
        execution: ExecutionId,
        effect: Effect,
        number: Option<u32>,
    },
    /// Frames are kept; the number that the next one gets.
    Appended {
        next: u64,
        cancel: Option<CancelRequest>,
    },
    Key {
        key: Arc<SigningKey>,
        deliveries: Vec<Delivery>,
    },
    /// An access token as it is now; `existing` if the change had been made before. Neither it nor a webhook leaves
    /// the process as a record: they have secrets, or hashes of them, in them.
    #[serde(skip)]
    Token {
        token: Arc<AccessToken>,
        existing: bool,
    },
    #[serde(skip)]
    Webhook(Arc<Webhook>),
    /// A bulk operation as it is now; `existing` if the change had been made before.
    Bulk {
        bulk: Arc<BulkOperation>,
        existing: bool,
    },
    /// An agenda entry had its effect, or had become pointless.
    Fired {
        effect: bool,
    },
    /// A posted row has left the inbox.
    Received(Fate),
    /// A dead letter has left the dead letters.
    Letter(Fate),
    Applied,
    Acknowledged,
}

/// A lease that was renewed, and whether a cancel was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Renewal {
    pub expires_at: Ms,
    pub cancel: Option<CancelRequest>,
}
