//! The registry: records that servers read and no rule about executions does.
//!
//! They live in one partition, the [home](HOME), and have no copies elsewhere: a server asks for them and remembers
//! them for a moment. To a store they are all alike, a kind, an id and a JSON body, so that another kind of record
//! needs no table of its own.

mod bulk;
mod copy;
mod token;
mod webhook;

use serde::{Deserialize, Serialize};
use serde_json::Error;

pub use bulk::{
    Action, BulkCounts, BulkOperation, BulkProblem, BulkState, BulkVerb, ENDED_KEPT, PART_MAX, PART_SCAN_MAX,
    PROBLEMS_KEPT, Selection, Skip,
};
pub use copy::UnfinishedCopy;
pub use token::{AccessToken, GONE_KEPT_MS, Refused, Revoked, Role, SecretHash};
pub use webhook::{DELIVERIES_KEPT, Delivery, Paused, Webhook};

use crate::id::Route;
use crate::rejection::Invalid;
use crate::state::words;

/// Where all records are.
pub const HOME: Route = Route(0);

words!(
    /// What a record is.
    RecordKind {
        Token = "token",
        Webhook = "webhook",
        Bulk = "bulk",
        Copy = "copy",
    }
);

/// What a record is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    pub kind: RecordKind,
    pub id: Box<str>,
}

impl RecordKey {
    pub fn token(id: &str) -> RecordKey {
        RecordKey { kind: RecordKind::Token, id: id.into() }
    }

    pub fn webhook(id: &str) -> RecordKey {
        RecordKey { kind: RecordKind::Webhook, id: id.into() }
    }

    pub fn bulk(id: &str) -> RecordKey {
        RecordKey { kind: RecordKind::Bulk, id: id.into() }
    }

    /// That of the one copy that a store can be.
    pub fn copy() -> RecordKey {
        RecordKey { kind: RecordKind::Copy, id: "copy".into() }
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Token(AccessToken),
    Webhook(Webhook),
    Bulk(BulkOperation),
    Copy(UnfinishedCopy),
}

impl Record {
    pub fn key(&self) -> RecordKey {
        match self {
            Record::Token(it) => RecordKey::token(&it.id),
            Record::Webhook(it) => RecordKey::webhook(&it.id),
            Record::Bulk(it) => RecordKey::bulk(&it.id),
            Record::Copy(_) => RecordKey::copy(),
        }
    }

    /// The JSON that stores keep. It has everything in it, also what nobody may see.
    ///
    /// # Errors
    /// None that a record of ours has.
    pub fn body(&self) -> Result<String, Error> {
        match self {
            Record::Token(it) => serde_json::to_string(it),
            Record::Webhook(it) => serde_json::to_string(it),
            Record::Bulk(it) => serde_json::to_string(it),
            Record::Copy(it) => serde_json::to_string(it),
        }
    }

    /// Reads back a [`body`](Self::body).
    ///
    /// # Errors
    /// If it is no body of a record of this kind.
    pub fn read(kind: RecordKind, body: &str) -> Result<Record, Error> {
        Ok(match kind {
            RecordKind::Token => Record::Token(serde_json::from_str(body)?),
            RecordKind::Webhook => Record::Webhook(serde_json::from_str(body)?),
            RecordKind::Bulk => Record::Bulk(serde_json::from_str(body)?),
            RecordKind::Copy => Record::Copy(serde_json::from_str(body)?),
        })
    }
}

const ID_BYTES_MAX: usize = 64;

/// Whether a record may have this id. There is none with any other, and stores need not be asked what they cannot even
/// write.
pub fn is_id(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    !id.is_empty() && id.len() <= ID_BYTES_MAX && id.chars().all(fits)
}

/// Checks an id, which its maker gives.
pub(crate) fn check_id(id: &str) -> Result<(), Invalid> {
    if !is_id(id) {
        let problem = format!(
            "is {id:?}; allowed are 1 to {ID_BYTES_MAX} lower-case letters, digits, '_' and '-'",
            id = shortened(id)
        );
        return Err(Invalid::new("id", problem));
    }
    Ok(())
}

/// What an error shows of a text that may be of any length.
fn shortened(text: &str) -> String {
    text.chars().take(ID_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_plain() {
        for good in ["a", "tok_0123456789abcdef", "my-hook", &"x".repeat(64)] {
            assert_eq!(check_id(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "a b", "a/b", "ä", "a\0", &"x".repeat(65)] {
            let problem = check_id(bad).unwrap_err().to_string();
            assert!(problem.starts_with("id is ") && problem.contains("allowed are"), "{problem}");
        }
    }

    #[test]
    fn a_body_is_read_as_what_it_was_and_as_nothing_else() {
        let record = Record::Token(token::tests::sample());
        let body = record.body().unwrap();
        assert_eq!(Record::read(RecordKind::Token, &body).unwrap(), record);
        assert!(Record::read(RecordKind::Webhook, &body).is_err());
        let record = Record::Webhook(webhook::tests::sample());
        let body = record.body().unwrap();
        assert_eq!(Record::read(RecordKind::Webhook, &body).unwrap(), record);
        assert!(Record::read(RecordKind::Token, &body).is_err());
        let record = Record::Bulk(bulk::tests::sample());
        let body = record.body().unwrap();
        assert_eq!(Record::read(RecordKind::Bulk, &body).unwrap(), record);
        assert!(Record::read(RecordKind::Webhook, &body).is_err());
        let record = Record::Copy(UnfinishedCopy { from: "sqlite".into(), started_at: 7 });
        let body = record.body().unwrap();
        assert_eq!(Record::read(RecordKind::Copy, &body).unwrap(), record);
        assert!(Record::read(RecordKind::Bulk, &body).is_err());
    }
}
