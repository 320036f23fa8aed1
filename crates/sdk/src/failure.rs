//! What a handler says when it could not do the work.

use std::fmt::{self, Display};
use std::time::Duration;

use ff_core::attempt::{ErrorClass, TaskError};

/// Why a handler failed, and what that means for the next attempt.
///
/// Any error of the standard kind becomes a retryable failure through `?`. [`Fatal`], [`RetryAfter`] and
/// [`Retryable`] say more. A [`code`](TaskFailure::code) can be searched for, and a policy may list codes that
/// are not to be retried.
///
/// # Example
/// ```
/// use flowfabric::{Context, Fatal, RetryAfter, TaskFailure};
/// use std::time::Duration;
///
/// async fn charge(_: Context, amount: String) -> Result<u64, TaskFailure> {
///     // Tried again after the policy's backoff:
///     let rates = std::fs::read_to_string("rates.txt")?;
///     // Never tried again:
///     let cents: u64 = amount.parse().map_err(Fatal)?;
///     if rates.is_empty() {
///         return Err(RetryAfter(Duration::from_secs(60), "no rates yet").into());
///     }
///     if cents > 1_000_000 {
///         return Err(Fatal("above the limit").code("over_limit"));
///     }
///     Ok(cents)
/// }
/// # let _ = charge;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    pub(crate) error: TaskError,
    pub(crate) retry_after: Option<Duration>,
}

impl TaskFailure {
    /// A failure that may be tried again.
    pub fn retryable(message: impl Display) -> TaskFailure {
        TaskFailure::new(ErrorClass::Retryable, &message)
    }

    /// A failure that no further attempt can mend.
    pub fn fatal(message: impl Display) -> TaskFailure {
        TaskFailure::new(ErrorClass::Fatal, &message)
    }

    fn new(class: ErrorClass, message: &dyn Display) -> TaskFailure {
        let message = message.to_string().into_boxed_str();
        TaskFailure { error: TaskError { code: None, message, class }, retry_after: None }
    }

    /// Names it with a word that programs can look for.
    #[must_use]
    pub fn code(mut self, code: &str) -> TaskFailure {
        self.error.code = Some(code.into());
        self
    }

    /// When the next attempt may start; wins over the policy's backoff.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> TaskFailure {
        self.retry_after = Some(delay);
        self
    }

    pub fn message(&self) -> &str {
        &self.error.message
    }

    pub fn is_fatal(&self) -> bool {
        self.error.class == ErrorClass::Fatal
    }

    /// Fits it into the limits: better a cut message than a failure that cannot be stored.
    pub(crate) fn fitted(mut self, message_max: usize) -> TaskFailure {
        self.error.message = fit(&self.error.message, message_max).into();
        self.error.code = self.error.code.map(|code| fit(&code, 128).into());
        self
    }
}

/// Cuts a text at a character's border and replaces U+0000, which no store takes.
pub(crate) fn fit(text: &str, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', " ")
}

impl Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)
    }
}

// As in `anyhow`, this type is no `std::error::Error` itself, so that all of those can become one by `?`.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for TaskFailure {
    fn from(error: E) -> TaskFailure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // Many errors repeat their source in their own text.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = error.source();
        }
        TaskFailure::retryable(message)
    }
}

/// An error that no further attempt can mend. `.map_err(Fatal)?` makes one of any error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal<M>(pub M);

/// An error after which the next attempt may start so much later, whatever the backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter<M>(pub Duration, pub M);

/// An error that may be tried again, for messages that are no errors themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retryable<M>(pub M);

impl<M: Display> From<Fatal<M>> for TaskFailure {
    fn from(Fatal(message): Fatal<M>) -> TaskFailure {
        TaskFailure::fatal(message)
    }
}

impl<M: Display> From<RetryAfter<M>> for TaskFailure {
    fn from(RetryAfter(delay, message): RetryAfter<M>) -> TaskFailure {
        TaskFailure::retryable(message).after(delay)
    }
}

impl<M: Display> From<Retryable<M>> for TaskFailure {
    fn from(Retryable(message): Retryable<M>) -> TaskFailure {
        TaskFailure::retryable(message)
    }
}

macro_rules! code {
    ($($name:ident),+) => {
        $(impl<M: Display> $name<M> {
            /// Names it with a word that programs can look for.
            pub fn code(self, code: &str) -> TaskFailure {
                TaskFailure::from(self).code(code)
            }
        })+
    };
}

code!(Fatal, RetryAfter, Retryable);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_retryable_and_keeps_what_is_behind_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("the bank said no")]
        struct Outer(#[source] std::io::Error);
        let failure = TaskFailure::from(Outer(std::io::Error::other("connection reset")));
        assert_eq!(failure.message(), "the bank said no: connection reset");
        assert!(!failure.is_fatal());
    }

    #[test]
    fn a_message_too_long_is_cut_at_a_character() {
        assert_eq!(fit("añb", 2), "a");
        assert_eq!(fit("a\0b", 9), "a b");
        assert_eq!(TaskFailure::fatal("ññ").fitted(3).message(), "ñ");
    }
}
