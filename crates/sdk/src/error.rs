//! What can go wrong for a caller of the SDK.

use ff_core::attempt::TaskError;
use ff_core::rejection::Invalid;
use ff_core::state::Reason;
use ff_core::{ExecutionId, FlowId, PublicState, Rejection};
use ff_engine::Failure;
use ff_engine::cursor::BadCursor;
use ff_engine::subscription::SubscribeError;
use ff_store::StoreError;

use crate::flow::FlowNotCompleted;

/// Why a call of the SDK has no answer.
///
/// Its text is written for people and says what to do; programs look at [`code`](Error::code), which
/// is stable, or match the variant.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let fabric = flowfabric::connect("memory:").await.unwrap();
/// let error = fabric.submit("charge", &7).lane("").await.unwrap_err();
/// assert_eq!(error.code(), "invalid");
/// assert_eq!(error.to_string(), "lane has 0 bytes; allowed are 1 to 64");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field does not fit. Nothing was stored.
    #[error("{0}")]
    Invalid(Invalid),
    /// Understood, and not allowed now. Nothing changed.
    #[error("{0}")]
    Rejected(Rejection),
    /// The execution whose result was asked for has ended without one.
    #[error("{0}")]
    NotCompleted(Box<NotCompleted>),
    /// The flow whose result was asked for has not completed.
    #[error("{0}")]
    FlowNotCompleted(Box<FlowNotCompleted>),
    /// The result is not what the caller takes it for.
    #[error("the result of execution {execution} is not a {wanted}: {problem}")]
    UnexpectedResult { execution: ExecutionId, wanted: &'static str, problem: String },
    /// The result of a flow is not what the caller takes it for.
    #[error("the result of flow {flow} is not a {wanted}: {problem}")]
    UnexpectedFlowResult { flow: FlowId, wanted: &'static str, problem: String },
    /// The place in the event log cannot be used.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
    /// The store cannot be opened or used as it is.
    #[error("{0}")]
    Store(String),
    /// Too much is waiting already, also after some tries. Nothing changed.
    #[error("the engine is busy: {waiting} commands are waiting (at most {max}); try again in a moment")]
    Busy { waiting: usize, max: usize },
    /// The store could not be reached in time. Nothing changed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The answer was lost, or something between here and the server gave another in its place; or the store was lost
    /// around the commit for so long that it cannot tell any more whether it happened.
    #[error("it is not known whether this was carried out; look before you repeat it")]
    OutcomeUnknown,
    /// The server did not let it pass: whoever asks may not, or the server is another one than this SDK speaks to.
    /// Nothing changed.
    #[error("{detail}")]
    Refused { code: &'static str, detail: String },
    /// The fabric was shut down.
    #[error("this fabric is shut down; connect again")]
    ShuttingDown,
    /// A defect in the engine, confined to this call.
    #[error("internal error: {0}")]
    Internal(String),
}

/// How an execution ended that did not complete.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("execution {execution} {state} ({reason}){}", described(.error))]
pub struct NotCompleted {
    pub execution: ExecutionId,
    pub state: PublicState,
    pub reason: Reason,
    /// What the last attempt reported, if it failed.
    pub error: Option<TaskError>,
}

pub(crate) fn described(error: &Option<TaskError>) -> String {
    match error {
        Some(TaskError { code: Some(code), message, .. }) => format!(": {message} [{code}]"),
        Some(TaskError { message, .. }) => format!(": {message}"),
        None => String::new(),
    }
}

impl Error {
    pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Error {
        Error::Invalid(Invalid::new(field, problem))
    }

    /// The word for this error, the same as in the HTTP API and the documentation.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Invalid(_) => "invalid",
            Error::Rejected(rejection) => rejection.code(),
            Error::NotCompleted(_) | Error::FlowNotCompleted(_) => "not_completed",
            Error::UnexpectedResult { .. } | Error::UnexpectedFlowResult { .. } => "unexpected_result",
            Error::Cursor(cursor) => cursor.code(),
            Error::Store(_) => "store",
            Error::Busy { .. } => "busy",
            Error::Unavailable(_) => "unavailable",
            Error::OutcomeUnknown => "outcome_unknown",
            Error::Refused { code, .. } => code,
            Error::ShuttingDown => "shutting_down",
            Error::Internal(_) => "internal",
        }
    }

    /// The field that does not fit, if that is what is wrong.
    pub fn field(&self) -> Option<&str> {
        match self {
            Error::Invalid(invalid) => Some(&invalid.field),
            _ => None,
        }
    }

    /// Whether the same call may succeed a little later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Busy { .. } | Error::Unavailable(_))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Rejected(Rejection::Invalid(invalid)) => Error::Invalid(invalid),
            Failure::Rejected(rejection) => Error::Rejected(rejection),
            Failure::Busy { waiting, max } => Error::Busy { waiting, max },
            Failure::Unavailable(text) => Error::Unavailable(text),
            Failure::OutcomeUnknown => Error::OutcomeUnknown,
            Failure::Internal(text) => Error::Internal(text),
            Failure::Refused { code, detail } => Error::Refused { code, detail },
            Failure::ShuttingDown => Error::ShuttingDown,
        }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        Error::Invalid(invalid)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Unavailable(text) => Error::Unavailable(text),
            StoreError::Refused(text) | StoreError::Unusable(text) => Error::Store(text),
        }
    }
}

impl From<SubscribeError> for Error {
    fn from(error: SubscribeError) -> Error {
        match error {
            SubscribeError::Cursor(cursor) => Error::Cursor(cursor),
            SubscribeError::Store(error) => error.into(),
        }
    }
}
