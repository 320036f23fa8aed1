//! Rows that applications have posted: those that wait, and those that were given up.

use ff_core::change::Changes;
use ff_core::inbox::{DeadLetter, Fate, Posted};
use ff_core::key::Ask;
use ff_core::workspace::Answer;

use super::source::{PAGE, Source};
use super::target::Target;
use super::{TransferError, Transferred};

/// More than there can be.
const ALL: usize = 1 << 40;
/// About how many bytes are posted at once.
const POST_BYTES: usize = 4 << 20;

/// How many dead letters are read at once; each may have as large an input as a submission.
const LETTERS: usize = 20;

/// Dead letters. They are posted and given up once more, with the reasons and at the times that they were.
pub(super) async fn letters(
    source: &Source<'_>,
    target: &mut Target<'_>,
    done: &mut Transferred,
) -> Result<(), TransferError> {
    for partition in source.each() {
        let mut after = 0;
        loop {
            let answers = source.load(partition, vec![Ask::DeadLetters { after, limit: LETTERS }]).await?;
            let letters = answers.into_iter().flat_map(|answer| match answer {
                Answer::DeadLetters { letters, .. } => letters,
                _ => Vec::new(),
            });
            let letters: Vec<DeadLetter> = letters.collect();
            let Some(last) = letters.last() else { break };
            after = last.posted.number;
            for letter in letters {
                give_up(target, letter).await?;
                done.dead_letters += 1;
            }
        }
    }
    Ok(())
}

async fn give_up(target: &mut Target<'_>, letter: DeadLetter) -> Result<(), TransferError> {
    let posted = letter.posted.arriving(target.random());
    let partition = posted.partition(target.partitions());
    target.store.post_all(vec![posted]).await.map_err(TransferError::Target)?;
    let ask = Ask::Inbox { limit: 2, bytes: usize::MAX >> 1 };
    let loaded = target.store.load(partition, vec![ask]).await.map_err(TransferError::Target)?;
    let rows = rows_of(loaded.answers);
    let [row] = &rows[..] else { return Err(TransferError::Interfered) };
    let inbox = vec![(row.number, Fate::Dead { reason: letter.reason })];
    let header = target.header_at(partition, letter.at);
    target.write(vec![(partition, Changes { header, inbox, ..Changes::default() })]).await
}

/// Rows that nobody has taken yet, in the order in which they would have been. Returns the numbers they had.
pub(super) async fn rows(
    source: &Source<'_>,
    target: &mut Target<'_>,
    done: &mut Transferred,
) -> Result<Vec<u64>, TransferError> {
    let mut rows = waiting(source).await?;
    rows.sort_by_key(|row| row.number);
    let numbers = rows.iter().map(|row| row.number).collect();
    done.posted += rows.len() as u64;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let row = row.arriving(target.random());
        bytes += row.weight();
        batch.push(row);
        if bytes >= POST_BYTES || batch.len() >= PAGE {
            target.store.post_all(std::mem::take(&mut batch)).await.map_err(TransferError::Target)?;
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        target.store.post_all(batch).await.map_err(TransferError::Target)?;
    }
    Ok(numbers)
}

/// The numbers of the rows that wait. Applications post them without a new version, so that only these tell of it.
pub(super) async fn numbers(source: &Source<'_>) -> Result<Vec<u64>, TransferError> {
    let mut numbers: Vec<u64> = waiting(source).await?.iter().map(|row| row.number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

async fn waiting(source: &Source<'_>) -> Result<Vec<Posted>, TransferError> {
    let mut rows = Vec::new();
    for partition in source.each() {
        let ask = Ask::Inbox { limit: ALL, bytes: usize::MAX >> 1 };
        rows.extend(rows_of(source.load(partition, vec![ask]).await?));
    }
    Ok(rows)
}

fn rows_of(answers: Vec<Answer>) -> Vec<Posted> {
    let rows = answers.into_iter().map(|answer| match answer {
        Answer::Inbox(rows) => rows,
        _ => Vec::new(),
    });
    rows.flatten().collect()
}
