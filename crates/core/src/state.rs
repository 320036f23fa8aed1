//! The words people see for where an execution stands.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            pub fn from_word(word: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|it| it.word() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}
pub(crate) use words;

words!(
    /// The public state of an execution. Derived from its [`State`](crate::execution::State), never set by
    /// hand.
    PublicState {
        Waiting = "waiting",
        Delayed = "delayed",
        WaitingChildren = "waiting_children",
        RateLimited = "rate_limited",
        Active = "active",
        Suspended = "suspended",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Expired = "expired",
        Skipped = "skipped",
    }
);

impl PublicState {
    pub fn is_terminal(self) -> bool {
        use PublicState::*;
        matches!(self, Completed | Failed | Cancelled | Expired | Skipped)
    }
}

words!(
    /// Why an execution is in its public state.
    Reason {
        WaitingForWorker = "waiting_for_worker",
        PausedByOperator = "paused_by_operator",
        WaitingForDelay = "waiting_for_delay",
        RetryBackoff = "retry_backoff",
        ResumeDelay = "resume_delay",
        Running = "running",
        CancelRequested = "cancel_requested",
        Succeeded = "succeeded",
        AttemptsExhausted = "attempts_exhausted",
        FatalError = "fatal_error",
        CrashLoop = "crash_loop",
        RetryTimeExhausted = "retry_time_exhausted",
        CancelledByRequest = "cancelled_by_request",
        DeadlinePassed = "deadline_passed",
        ScheduleToStartPassed = "schedule_to_start_passed",
        LeaseLost = "lease_lost",
        WaitingForDependencies = "waiting_for_dependencies",
        Hedge = "hedge",
        SiblingQuorumSatisfied = "sibling_quorum_satisfied",
        SiblingQuorumImpossible = "sibling_quorum_impossible",
        FlowCancelled = "flow_cancelled",
        DependenciesImpossible = "dependencies_impossible",
        ChildFlow = "child_flow",
        ChildFlowFailed = "child_flow_failed",
        WaitingForSignal = "waiting_for_signal",
        WaitingForApproval = "waiting_for_approval",
        WaitingForCallback = "waiting_for_callback",
        WaitingForToolResult = "waiting_for_tool_result",
        WaitingForChild = "waiting_for_child",
        OperatorReview = "operator_review",
        SuspensionTimedOut = "suspension_timed_out",
        ParentEnded = "parent_ended",
    }
);

words!(
    /// How an attempt ended.
    AttemptOutcome {
        Completed = "completed",
        Failed = "failed",
        TimedOut = "timed_out",
        LeaseLost = "lease_lost",
        Revoked = "revoked",
        Released = "released",
        Cancelled = "cancelled",
    }
);
