//! Revoke an access token: it is good for nothing any more, and stays listed for a while.

use std::sync::Arc;

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::registry::{AccessToken, Record, RecordKey, Revoked};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// The first revocation stands; repeating it is harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct RevokeToken {
    pub id: Box<str>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl RevokeToken {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let Some(Record::Token(token)) = ws.record(&RecordKey::token(&self.id))?.map(|it| &**it) else {
            return Err(Rejection::NotFound { what: "token".into(), id: self.id.to_string() }.into());
        };
        if token.revoked.is_some() {
            return Ok(Reply::Token { token: Arc::new(token.clone()), existing: true });
        }
        let by = By::new(&self.actor, &self.cause);
        let token = AccessToken { revoked: Some(Revoked { at: now, by: by.clone() }), ..token.clone() };
        ws.emit_global(
            None,
            now,
            Fact::TokenRevoked { by, token: self.id.clone(), name: token.name.clone() },
        );
        ws.put_record(Record::Token(token.clone()));
        Ok(Reply::Token { token: Arc::new(token), existing: false })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::Refused;

    #[test]
    fn an_id_that_no_record_can_have_is_not_looked_for() {
        let mut bench = Bench::new();
        let reads = bench.reads;
        for id in ["a\0b", "", "Ä", &"a".repeat(65)] {
            let refused = Rejection::NotFound { what: "token".into(), id: id.into() };
            assert_eq!(bench.refused(revoke_token(id)), refused);
        }
        assert_eq!(bench.reads, reads);
        assert!(matches!(bench.refused(revoke_token("gone")), Rejection::NotFound { .. }));
        assert!(bench.reads > reads);
    }

    #[test]
    fn the_first_revocation_stands_and_is_an_event() {
        let mut bench = Bench::new();
        bench.ok(create_token("a", 1));
        let Reply::Token { token, .. } = bench.ok(revoke_token("a")) else { panic!() };
        assert_eq!(token.check(bench.now), Err(Refused::Revoked));
        let revoked_at = bench.now;
        assert_eq!(token.revoked, Some(Revoked { at: revoked_at, by: By::new("op", "test") }));
        assert_eq!(bench.store.events.last().unwrap().fact.word(), "token_revoked");
        let events = bench.store.events.len();
        bench.pass(10);
        let again = RevokeToken { actor: "another".into(), ..revoke_token("a") };
        let Reply::Token { token, existing } = bench.ok(again) else { panic!() };
        assert_eq!((token.revoked.as_ref().map(|it| it.at), existing), (Some(revoked_at), true));
        assert_eq!(bench.store.events.len(), events);
    }

    #[test]
    fn an_unknown_token_cannot_be_revoked() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(revoke_token("a")).unwrap_err().to_string(), "there is no token a");
    }
}
