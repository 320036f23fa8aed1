//! Issue the token of an open waitpoint once more, under the newest key.

use super::Decision;
use super::mail::token;
use crate::Ms;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::suspension::WaitpointId;
use crate::workspace::Workspace;

/// Asks for the token of a waitpoint. Nothing changes: a token is not stored, it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct IssueToken {
    pub waitpoint: WaitpointId,
}

impl IssueToken {
    pub(super) fn decide(&self, ws: &mut Workspace, _now: Ms) -> Decision {
        let WaitpointId { execution, number } = self.waitpoint;
        let execution = ws.require(execution)?;
        let open = execution.mailbox().and_then(|mailbox| mailbox.waitpoint(number));
        let Some(open) = open else {
            let id = self.waitpoint.to_string();
            return Err(Rejection::NotFound { what: "open waitpoint".into(), id }.into());
        };
        let token = token(ws, execution, open);
        Ok(Reply::WaitpointOpened { waitpoint: self.waitpoint, expires_at: open.expires_at, token })
    }
}
