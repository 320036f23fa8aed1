//! Dead letters: rows that an application posted and that could not become executions.

use ff_core::PartitionId;
use ff_core::commands::{DropLetter, RepostLetter};
use ff_core::inbox::DeadLetter;
use ff_core::{Rejection, Reply};

use crate::fabric::odd_reply;
use crate::operation::{Asked, Operation};
use crate::{Error, Fabric};

/// How many one call brings.
const LIMIT_MAX: usize = 10_000;

/// A dead letter that was found, to be looked at, posted again or dropped.
#[derive(Clone, Debug)]
pub struct Letter {
    fabric: Fabric,
    partition: PartitionId,
    letter: DeadLetter,
}

impl Fabric {
    /// The dead letter with this number.
    ///
    /// # Errors
    /// `not_found` if there is none, or the store cannot be read.
    pub async fn letter(&self, number: u64) -> Result<Letter, Error> {
        match self.retried(|| self.link().dead_letter(number)).await? {
            Some((partition, letter)) => Ok(Letter { fabric: self.clone(), partition, letter }),
            None => {
                let (what, id) = ("dead letter".into(), number.to_string());
                Err(Error::Rejected(Rejection::NotFound { what, id }))
            }
        }
    }
}

impl Fabric {
    /// Dead letters after a number, in the order of their numbers: up to so many, 10,000 at most.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn letters(&self, after: u64, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let mut letters: Vec<DeadLetter> = Vec::new();
        loop {
            let (after, left) = (letters.last().map_or(after, |it| it.posted.number), limit - letters.len());
            // Pages of large letters have fewer than were asked for.
            let page = self.retried(|| self.link().dead_letters(after, left)).await?;
            let over = !page.more || page.letters.is_empty();
            letters.extend(page.letters);
            if over || letters.len() >= limit {
                return Ok(letters);
            }
        }
    }
}

impl Letter {
    /// What was posted, and why it was given up.
    pub fn content(&self) -> &DeadLetter {
        &self.letter
    }

    /// Puts it back into the inbox, as it was posted: after a lane was resumed, for instance. Servers decide it anew.
    pub fn repost(&self) -> Operation<()> {
        let (partition, number) = (self.partition, self.letter.posted.number);
        Operation::new(&self.fabric, done, move |Asked { actor, cause, .. }| {
            Ok(RepostLetter { partition, number, actor, cause }.into())
        })
    }

    /// Removes it for good.
    pub fn drop(&self) -> Operation<()> {
        let (partition, number) = (self.partition, self.letter.posted.number);
        Operation::new(&self.fabric, done, move |Asked { actor, cause, .. }| {
            Ok(DropLetter { partition, number, actor, cause }.into())
        })
    }
}

fn done(reply: Reply) -> Result<(), Error> {
    match reply {
        Reply::Letter(_) => Ok(()),
        reply => Err(odd_reply(&reply)),
    }
}
