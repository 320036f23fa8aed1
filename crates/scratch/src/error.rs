//! What went wrong, in words for whoever runs the tests.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }

    /// An operating system's error with what was being done.
    pub(crate) fn doing(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Error {
        Error(format!("{what}: {error}"))
    }
}
