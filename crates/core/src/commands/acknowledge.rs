//! Acknowledge: another partition has applied a message of ours; forget it.

use super::Decision;
use crate::Ms;
use crate::agenda::AgendaKey;
use crate::reply::Reply;
use crate::workspace::Workspace;

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
