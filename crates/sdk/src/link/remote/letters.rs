//! Dead letters of a server.

use ff_api::record::{LetterRecord, Letters};
use ff_core::PartitionId;
use ff_core::inbox::DeadLetter;
use ff_engine::{Failure, LetterPage};

use super::Remote;
use super::http::Call;
use super::query::Query;

/// The path of a letter, and what is to be done with it.
pub(super) fn of(number: u64, what: &str) -> String {
    format!("/v1/dead-letters/{number}{what}")
}

impl Remote {
    pub async fn dead_letter(&self, number: u64) -> Result<Option<(PartitionId, DeadLetter)>, Failure> {
        let found: Option<LetterRecord> = self.find(Call::get(of(number, ""))).await?;
        Ok(found.map(|it| (PartitionId(it.partition), it.letter)))
    }

    pub async fn dead_letters(&self, after: u64, limit: usize) -> Result<LetterPage, Failure> {
        let query = Query::new("/v1/dead-letters").set("after", after).set("limit", limit);
        let Letters { letters, next_after } = self.question(Call::get(query.path())).await?;
        Ok(LetterPage { letters, more: next_after.is_some() })
    }
}
