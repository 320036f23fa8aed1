//! Dead letters: posted rows that could not become executions.

use std::collections::BTreeMap;

use ff_core::PartitionId;
use ff_core::inbox::DeadLetter;
use ff_core::key::Ask;
use ff_core::workspace::Answer;

use crate::doctor;
use crate::engine::{Engine, unavailable};
use crate::failure::Failure;

/// How many are read at once: whoever posts says how large each is, so a read brings few.
const READ: usize = 20;

/// How much of them one page holds, about; at least one letter if there is any.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Some dead letters, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LetterPage {
    pub letters: Vec<DeadLetter>,
    /// There are more after the last of them.
    pub more: bool,
}

impl Engine {
    /// Dead letters after a number: up to so many, and fewer where they are large.
    pub async fn dead_letters(&self, after: u64, limit: usize) -> Result<LetterPage, Failure> {
        let mut lowest = Lowest { limit, ..Lowest::default() };
        for partition in (0..self.store().info().partitions).map(PartitionId) {
            let mut after = after;
            loop {
                let count = READ.min(limit.saturating_add(1));
                let letters = self.read_letters(partition, after, count).await?;
                let is_last = letters.len() < count;
                after = letters.last().map_or(after, |it| it.posted.number);
                lowest.add(letters);
                if is_last || lowest.before.is_some_and(|before| after >= before) {
                    break;
                }
            }
        }
        Ok(LetterPage { letters: lowest.letters.into_values().collect(), more: lowest.before.is_some() })
    }

    async fn read_letters(
        &self,
        partition: PartitionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Failure> {
        let asks = vec![Ask::DeadLetters { after, limit }];
        let loaded = self.store().load(partition, asks).await.map_err(unavailable)?;
        let letters = loaded.answers.into_iter().flat_map(|answer| match answer {
            Answer::DeadLetters { letters, .. } => letters,
            _ => Vec::new(),
        });
        Ok(letters.collect())
    }

    /// The dead letter with this number, and the partition it is in.
    pub async fn dead_letter(&self, number: u64) -> Result<Option<(PartitionId, DeadLetter)>, Failure> {
        doctor::dead_letter(&**self.store(), number).await.map_err(unavailable)
    }
}

/// The letters with the lowest numbers of all partitions, as many as fit into a page.
#[derive(Default)]
struct Lowest {
    letters: BTreeMap<u64, DeadLetter>,
    bytes: usize,
    limit: usize,
    /// The lowest number that has not fitted: nothing from there on belongs to the page.
    before: Option<u64>,
}

impl Lowest {
    fn add(&mut self, letters: Vec<DeadLetter>) {
        for letter in letters {
            if self.before.is_some_and(|before| letter.posted.number >= before) {
                return;
            }
            self.bytes += size(&letter);
            self.letters.insert(letter.posted.number, letter);
            while self.letters.len() > self.limit || (self.bytes > PAGE_BYTES_MAX && self.letters.len() > 1) {
                let Some((number, letter)) = self.letters.pop_last() else { return };
                self.bytes -= size(&letter);
                self.before = Some(number);
            }
        }
    }
}

fn size(letter: &DeadLetter) -> usize {
    let DeadLetter { posted, reason, .. } = letter;
    let texts = [&posted.namespace, &posted.lane, &posted.key, &posted.options];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    posted.input.len() + posted.kind.len() + texts + reason.len()
}
