//! A place in the event log: for each partition, the number of the next event to be seen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Opaque to users: a text they store and hand back. It names its store, so that a cursor of another one is
/// recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub(crate) store: Uuid,
    pub(crate) next: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCursor {
    #[error("this is not a cursor; use one that came with an event, or start at now, beginning or a time")]
    Malformed,
    #[error("this cursor belongs to another store; start anew at now, beginning or a time")]
    OtherStore,
    #[error("events after this cursor are no longer kept; the oldest cursor is {oldest}")]
    Expired { oldest: Cursor },
}

impl BadCursor {
    pub fn code(&self) -> &'static str {
        match self {
            BadCursor::Malformed => "cursor_malformed",
            BadCursor::OtherStore => "cursor_other_store",
            BadCursor::Expired { .. } => "cursor_expired",
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c1.{}", self.store.simple())?;
        self.next.iter().try_for_each(|number| write!(f, ".{number:x}"))
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let mut parts = text.trim().split('.');
        if parts.next() != Some("c1") {
            return Err(BadCursor::Malformed);
        }
        let store = parts.next().and_then(|part| Uuid::try_parse(part).ok()).ok_or(BadCursor::Malformed)?;
        let next = parts.map(|part| u64::from_str_radix(part, 16).map_err(|_| BadCursor::Malformed));
        let next: Vec<u64> = next.collect::<Result<_, _>>()?;
        if next.is_empty() || next.len() > usize::from(u16::MAX) {
            return Err(BadCursor::Malformed);
        }
        Ok(Cursor { store, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_anything_else_is_malformed() {
        let cursor = Cursor { store: Uuid::from_u128(7), next: vec![1, 0xffff_ffff_ffff, 3] };
        assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
        for bad in [
            "",
            "c1",
            "c1.x",
            "c2.00000000000000000000000000000007.1",
            "c1.00000000000000000000000000000007",
            "c1.00000000000000000000000000000007.zz",
            "c1.00000000000000000000000000000007.-1",
        ] {
            assert_eq!(bad.parse::<Cursor>(), Err(BadCursor::Malformed), "{bad}");
        }
    }
}
