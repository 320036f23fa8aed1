//! Why a store did not do what it was asked. In every case nothing was written.

/// For an operator's eyes: the texts name files, limits and what to do next, never payloads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Out of reach or out of room at the moment; the same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// The store understood and will refuse the same again.
    #[error("{0}")]
    Refused(String),
    /// This store cannot be used as it is: newer, damaged, or not ours.
    #[error("{0}")]
    Unusable(String),
}
