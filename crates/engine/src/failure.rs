//! Why a command has no reply.

use ff_core::Rejection;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Decided, and not allowed now. Nothing changed.
    #[error("{0}")]
    Rejected(Rejection),
    /// Too much is waiting already. Nothing changed; try again a little later.
    #[error("the engine is busy: {waiting} commands are waiting (at most {max}); try again in a moment")]
    Busy { waiting: usize, max: usize },
    /// The store could not be reached in time. Nothing changed; try again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store was lost around the commit for so long that it cannot tell any more whether it happened.
    #[error("it is not known whether the command was carried out; look before you repeat it")]
    OutcomeUnknown,
    /// A defect, confined to this command. Nothing changed.
    #[error("internal error: {0}")]
    Internal(String),
    /// A server on the way to the engine did not let it pass: whoever asks may not, or the request is none. Nothing
    /// changed.
    #[error("{detail}")]
    Refused { code: &'static str, detail: String },
    /// The engine is stopping. Nothing changed.
    #[error("the engine is shutting down; send the command to another server or after the restart")]
    ShuttingDown,
}

impl Failure {
    /// The word under which `docs/errors.md` explains it.
    pub fn code(&self) -> &'static str {
        match self {
            Failure::Rejected(rejection) => rejection.code(),
            Failure::Busy { .. } => "busy",
            Failure::Unavailable(_) => "unavailable",
            Failure::OutcomeUnknown => "outcome_unknown",
            Failure::Internal(_) => "internal",
            Failure::Refused { code, .. } => code,
            Failure::ShuttingDown => "shutting_down",
        }
    }

    /// Whether the same command may be sent again as it is.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Failure::Busy { .. } | Failure::Unavailable(_) | Failure::ShuttingDown)
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Failure::Rejected(rejection)
    }
}
