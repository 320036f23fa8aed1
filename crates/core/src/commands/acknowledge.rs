//! Acknowledge: another partition has applied a message of ours; forget it.

use super::Decision;
use crate::Ms;
use crate::agenda::AgendaKey;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Another partition has applied the message of this entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Acknowledge {
    pub entry: AgendaKey,
}

impl Acknowledge {
    pub(super) fn decide(&self, ws: &mut Workspace, _now: Ms) -> Decision {
        if ws.agenda().contains(&self.entry) {
            ws.strike(self.entry);
        }
        Ok(Reply::Acknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn an_acknowledged_message_is_forgotten_and_acknowledging_again_is_harmless() {
        let mut bench = Bench::of(crate::id::PartitionId(0), 3, crate::limits::Limits::default());
        let entries = bench.messages();
        assert_eq!(entries.len(), 2);
        for _ in 0..2 {
            assert_eq!(bench.ok(Acknowledge { entry: entries[0].key }), Reply::Acknowledged);
            assert_eq!(bench.messages(), entries[1..]);
        }
    }
}
