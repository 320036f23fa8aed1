//! The output of an execution, wherever it comes from.

use ff_engine::{Output, Place, Tail as OfEngine};

use super::remote::Reading;
use crate::Error;

/// Reads the output of one execution as it is appended; made by [`Run::tail`](crate::Run::tail).
#[derive(Debug)]
pub struct Tail(Source);

#[derive(Debug)]
enum Source {
    Embedded(OfEngine),
    Remote(Box<Reading>),
}

impl Tail {
    pub(super) fn embedded(tail: OfEngine) -> Tail {
        Tail(Source::Embedded(tail))
    }

    pub(super) fn remote(reading: Reading) -> Tail {
        Tail(Source::Remote(Box::new(reading)))
    }

    /// The place right after everything received so far.
    pub fn place(&self) -> Place {
        match &self.0 {
            Source::Embedded(tail) => tail.place(),
            Source::Remote(reading) => reading.place(),
        }
    }

    /// What comes next, as soon as it is there; nothing after the end of the execution. Safe to drop and call again.
    ///
    /// # Errors
    /// The execution was removed, or the store cannot be read.
    pub async fn next(&mut self) -> Result<Option<Output>, Error> {
        match &mut self.0 {
            Source::Embedded(tail) => Ok(tail.next().await?),
            Source::Remote(reading) => Ok(Box::pin(reading.next()).await?),
        }
    }

    /// What comes next of what is there now; nothing if all of it was read.
    ///
    /// # Errors
    /// As [`next`](Tail::next).
    pub async fn next_now(&mut self) -> Result<Option<Output>, Error> {
        match &mut self.0 {
            Source::Embedded(tail) => Ok(tail.next_now().await?),
            Source::Remote(reading) => Ok(Box::pin(reading.next_now()).await?),
        }
    }
}
