//! Create an access token. Whoever creates it makes its secret; here only the hash of it arrives.

use std::sync::Arc;

use super::{Decision, check_by, check_text};
use crate::Ms;
use crate::event::{By, Fact};
use crate::limits::Limits;
use crate::name::Namespace;
use crate::policy::range;
use crate::registry::{AccessToken, Record, RecordKey, RecordKind, Role, SecretHash, check_id};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

const NAME_BYTES_MAX: usize = 128;
const NAMESPACES_MAX: usize = 64;
/// How many tokens that ended long ago go with each that is created.
const FORGOTTEN_AT_ONCE: usize = 100;

/// Makes a token that its holder shows with each call. The same again changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateToken {
    /// New, from the caller.
    pub id: Box<str>,
    /// For people.
    pub name: Box<str>,
    pub hash: SecretHash,
    pub role: Role,
    /// Empty: all of them.
    pub namespaces: Vec<Namespace>,
    pub see_payloads: bool,
    /// Absent: it is good until it is revoked.
    pub expires_in_ms: Option<Ms>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl CreateToken {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        check_id(&self.id)?;
        if self.name.trim().is_empty() || self.name.chars().any(char::is_control) {
            let problem = format!("allows 1 to {NAME_BYTES_MAX} bytes of printable characters");
            return Err(Invalid::new("name", problem).into());
        }
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        // In what is written down, a slash ends the name of the token and begins for whom it acts.
        if self.name.contains('/') {
            return Err(Invalid::new("name", "has a slash; use another character").into());
        }
        if self.namespaces.len() > NAMESPACES_MAX {
            let problem = format!("has {} entries; allowed are {NAMESPACES_MAX}", self.namespaces.len());
            return Err(Invalid::new("namespaces", problem).into());
        }
        if let Some(ms) = self.expires_in_ms {
            range("expires_in_ms", ms, 1, limits.horizon_ms_max)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let tokens = tokens(ws)?;
        if let Some(token) = tokens.iter().find(|token| token.id == self.id) {
            if token.hash != self.hash {
                return Err(Rejection::IdUsed { what: "token".into(), id: self.id.clone() }.into());
            }
            return Ok(Reply::Token { token: Arc::new(token.clone()), existing: true });
        }
        if tokens.iter().any(|token| token.hash == self.hash) {
            return Err(Invalid::new("hash", "belongs to another token; make a new secret").into());
        }
        let forgotten = tokens.iter().filter(|token| token.is_forgotten(now)).take(FORGOTTEN_AT_ONCE);
        let forgotten: Vec<RecordKey> = forgotten.map(|token| RecordKey::token(&token.id)).collect();
        let max = ws.limits.tokens_max;
        if tokens.len() - forgotten.len() >= max {
            return Err(Rejection::RegistryFull { what: "tokens".into(), max }.into());
        }
        forgotten.into_iter().for_each(|key| ws.drop_record(key));
        let mut namespaces = self.namespaces.clone();
        namespaces.sort_unstable();
        namespaces.dedup();
        let by = By::new(&self.actor, &self.cause);
        let token = AccessToken {
            id: self.id.clone(),
            name: self.name.clone(),
            hash: self.hash,
            role: self.role,
            namespaces,
            see_payloads: self.see_payloads,
            created_at: now,
            created_by: by.clone(),
            expires_at: self.expires_in_ms.map(|ms| now.saturating_add(ms)),
            revoked: None,
        };
        let fact = Fact::TokenCreated {
            by,
            token: token.id.clone(),
            name: token.name.clone(),
            role: token.role,
            namespaces: token.namespaces.clone(),
            see_payloads: token.see_payloads,
            expires_at: token.expires_at,
        };
        ws.emit_global(None, now, fact);
        ws.put_record(Record::Token(token.clone()));
        Ok(Reply::Token { token: Arc::new(token), existing: false })
    }
}

/// All tokens, in the order of their ids, so that the same ones go first wherever it is decided.
fn tokens(ws: &Workspace) -> Result<Vec<AccessToken>, Stop> {
    let mut tokens: Vec<AccessToken> = ws
        .records(RecordKind::Token)?
        .filter_map(|record| match &**record {
            Record::Token(token) => Some(token.clone()),
            Record::Webhook(_) | Record::Bulk(_) | Record::Copy(_) => None,
        })
        .collect();
    tokens.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::GONE_KEPT_MS;

    fn existing(reply: Reply) -> (AccessToken, bool) {
        let Reply::Token { token, existing } = reply else { panic!("{reply:?}") };
        ((*token).clone(), existing)
    }

    #[test]
    fn a_token_is_kept_by_its_hash_and_told_without_it() {
        let mut bench = Bench::new();
        let words = ["b", "a", "b"].map(|it| Namespace::parse(it).unwrap());
        let create = CreateToken {
            namespaces: words.to_vec(),
            expires_in_ms: Some(5_000),
            see_payloads: true,
            ..create_token("tok_1", 1)
        };
        let (token, old) = existing(bench.ok(create));
        assert_eq!((&*token.id, token.hash, old), ("tok_1", SecretHash([1; 32]), false));
        assert_eq!((token.created_at, token.expires_at), (bench.now, Some(bench.now + 5_000)));
        assert_eq!(token.namespaces, [words[1].clone(), words[0].clone()]);
        assert_eq!(token.created_by, By::new("op", "test"));
        assert_eq!(*bench.store.registry[&RecordKey::token("tok_1")], Record::Token(token));
        let event = bench.store.events.last().unwrap();
        assert_eq!(event.fact.word(), "token_created");
        let told = serde_json::to_string(event).unwrap();
        assert!(told.contains("tok_1") && !told.contains(&"01".repeat(32)), "{told}");
    }

    #[test]
    fn the_same_again_changes_nothing_and_an_id_or_a_secret_is_not_used_twice() {
        let mut bench = Bench::new();
        let first = existing(bench.ok(create_token("a", 1))).0;
        let events = bench.store.events.len();
        bench.pass(10);
        let again = CreateToken { name: "other".into(), ..create_token("a", 1) };
        assert_eq!(existing(bench.ok(again)), (first.clone(), true));
        assert_eq!(bench.run(create_token("a", 2)).unwrap_err().code(), "id_used");
        assert_eq!(bench.run(create_token("b", 1)).unwrap_err().code(), "invalid");
        bench.ok(revoke_token("a"));
        let (revoked, old) = existing(bench.ok(create_token("a", 1)));
        assert!(old && revoked.revoked.is_some(), "creating it again does not bring it back");
        assert_eq!(bench.store.events.len(), events + 1);
    }

    #[test]
    fn tokens_that_ended_long_ago_go_when_another_is_created() {
        let mut bench = Bench::new();
        bench.ok(CreateToken { expires_in_ms: Some(1), ..create_token("expired", 1) });
        bench.ok(create_token("revoked", 2));
        bench.ok(create_token("good", 3));
        bench.ok(revoke_token("revoked"));
        bench.pass(GONE_KEPT_MS);
        bench.ok(CreateToken { expires_in_ms: Some(1), ..create_token("new", 4) });
        let ids: Vec<&str> = bench.store.registry.keys().map(|key| &*key.id).collect();
        assert_eq!(ids, ["expired", "good", "new"], "a millisecond is missing");
        bench.pass(1);
        bench.ok(create_token("newer", 5));
        let ids: Vec<&str> = bench.store.registry.keys().map(|key| &*key.id).collect();
        assert_eq!(ids, ["good", "new", "newer"]);
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let limits = Limits { tokens_max: 2, ..Limits::default() };
        let mut bench = Bench::of(crate::id::PartitionId(0), 1, limits);
        bench.ok(create_token("a", 1));
        bench.ok(create_token("b", 2));
        assert_eq!(bench.run(create_token("c", 3)).unwrap_err().code(), "registry_full");
        bench.ok(create_token("a", 1));
    }

    #[test]
    fn what_does_not_fit_is_refused_at_the_edge() {
        for (field, bad) in [
            ("id", create_token("A", 1)),
            ("name", CreateToken { name: " ".into(), ..create_token("a", 1) }),
            ("name", CreateToken { name: "a\nb".into(), ..create_token("a", 1) }),
            ("name", CreateToken { name: "ops/ada".into(), ..create_token("a", 1) }),
            ("name", CreateToken { name: "x".repeat(129).into(), ..create_token("a", 1) }),
            (
                "namespaces",
                CreateToken { namespaces: vec![Namespace::default(); 65], ..create_token("a", 1) },
            ),
            ("expires_in_ms", CreateToken { expires_in_ms: Some(0), ..create_token("a", 1) }),
            ("expires_in_ms", CreateToken { expires_in_ms: Some(Ms::MAX), ..create_token("a", 1) }),
            ("cause", CreateToken { cause: "a\0".into(), ..create_token("a", 1) }),
        ] {
            let problem = bad.validate(&Limits::default()).unwrap_err().to_string();
            assert!(problem.starts_with(field), "{problem}");
        }
    }
}
