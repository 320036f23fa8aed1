//! Issue the token of an open waitpoint once more, under the newest key.

use super::Decision;
use super::mail::token;
use crate::Ms;
use crate::event::{By, Fact};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::suspension::WaitpointId;
use crate::workspace::Workspace;

/// Asks for the token of a waitpoint. A token is not stored, it is made; only who asked for it is written down.
#[derive(Clone, Debug, PartialEq)]
pub struct IssueToken {
    pub waitpoint: WaitpointId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl IssueToken {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let WaitpointId { execution, number } = self.waitpoint;
        let execution = ws.require(execution)?.clone();
        let open = execution.mailbox().and_then(|mailbox| mailbox.waitpoint(number));
        let Some(open) = open else {
            let id = self.waitpoint.to_string();
            return Err(Rejection::NotFound { what: "open waitpoint".into(), id }.into());
        };
        let token = token(ws, &execution, open);
        let fact = Fact::WaitpointTokenIssued {
            waitpoint: number,
            by: By::new(&self.actor, &self.cause),
            token: token.as_ref().map(|token| token.fingerprint().into()),
        };
        ws.emit(&execution, now, fact);
        Ok(Reply::WaitpointOpened { waitpoint: self.waitpoint, expires_at: open.expires_at, token })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn who_asks_for_a_token_is_written_down_and_the_token_is_not() {
        let mut bench = Bench::new();
        bench.ok(rotate_key(1, 0));
        let fence = bench.active();
        bench.ok(open_waitpoint(fence, "board"));
        let waitpoint = WaitpointId { execution: fence.execution, number: 1 };
        let issue = IssueToken { waitpoint, actor: "ops".into(), cause: "the mail was lost".into() };
        let Reply::WaitpointOpened { token: Some(token), .. } = bench.ok(issue) else { panic!() };
        let event = bench.store.events.last().unwrap();
        let fingerprint = Some(token.fingerprint().into());
        let by = By::new("ops", "the mail was lost");
        assert_eq!(event.fact, Fact::WaitpointTokenIssued { waitpoint: 1, by, token: fingerprint });
        assert_eq!(event.execution, Some(fence.execution));
        let told = serde_json::to_string(event).unwrap();
        assert!(!told.contains(token.reveal().rsplit_once('.').unwrap().1), "{told}");
    }
}
