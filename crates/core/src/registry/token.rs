//! Access tokens: who may call a server, and what for.
//!
//! A token is known by the SHA-256 of its secret. Secrets are random, so their hash needs neither salt nor a slow
//! function, and what is stored lets nobody in.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Ms;
use crate::event::By;
use crate::name::Namespace;
use crate::state::words;
use crate::suspension::token::{from_hex, hex};

/// How long a token that was revoked or has expired is still listed.
pub const GONE_KEPT_MS: Ms = 30 * 24 * 3_600_000;

words!(
    /// What a token lets its holder do. Which calls that is, is said by whoever serves them.
    Role {
        Viewer = "viewer",
        Worker = "worker",
        Operator = "operator",
        Admin = "admin",
    }
);

words!(
    /// Why a token is good for nothing.
    Refused {
        Revoked = "revoked",
        Expired = "expired",
    }
);

/// The SHA-256 of a secret. It is not printed: whoever sees it could look for its secret elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    /// That of a secret, in the text in which it is sent.
    pub fn of(secret: &str) -> SecretHash {
        SecretHash(Sha256::digest(secret.as_bytes()).into())
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> String {
        hex(&hash.0)
    }
}

impl TryFrom<String> for SecretHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<SecretHash, Self::Error> {
        from_hex(&text).map(SecretHash).ok_or("a hash is 64 hexadecimal digits")
    }
}

/// When, by whom and why something was revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    pub at: Ms,
    #[serde(flatten)]
    pub by: By,
}

/// A token of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    pub id: Box<str>,
    /// For people.
    pub name: Box<str>,
    pub hash: SecretHash,
    pub role: Role,
    /// Empty: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Namespace>,
    /// Whether it shows inputs, results and other content.
    pub see_payloads: bool,
    pub created_at: Ms,
    pub created_by: By,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Ms>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

impl AccessToken {
    /// Whether it is good at a time.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, now: Ms) -> Result<(), Refused> {
        match (&self.revoked, self.expires_at) {
            (Some(_), _) => Err(Refused::Revoked),
            (None, Some(at)) if at <= now => Err(Refused::Expired),
            _ => Ok(()),
        }
    }

    /// Whether it speaks for what belongs to a namespace.
    pub fn covers(&self, namespace: &Namespace) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Since when it is good for nothing.
    fn gone_at(&self) -> Option<Ms> {
        self.revoked.as_ref().map(|it| it.at).into_iter().chain(self.expires_at).min()
    }

    /// Whether nobody needs to be told any more that there was such a token.
    pub fn is_forgotten(&self, now: Ms) -> bool {
        self.gone_at().is_some_and(|at| at.saturating_add(GONE_KEPT_MS) <= now)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> AccessToken {
        AccessToken {
            id: "tok_1".into(),
            name: "deploys".into(),
            hash: SecretHash::of("ffk_x"),
            role: Role::Operator,
            namespaces: vec![Namespace::default()],
            see_payloads: true,
            created_at: 1,
            created_by: By::new("ada", "new pipeline"),
            expires_at: Some(100),
            revoked: Some(Revoked { at: 50, by: By::new("bob", "leaked") }),
        }
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let good = AccessToken { revoked: None, ..sample() };
        assert_eq!((good.check(99), good.check(100)), (Ok(()), Err(Refused::Expired)));
        assert_eq!(sample().check(10), Err(Refused::Revoked), "whatever the clock of the moment says");
        let for_ever = AccessToken { expires_at: None, ..good };
        assert_eq!((for_ever.check(Ms::MAX), for_ever.is_forgotten(Ms::MAX)), (Ok(()), false));
    }

    #[test]
    fn it_is_listed_for_a_while_after_its_end() {
        let expired = AccessToken { revoked: None, ..sample() };
        for (token, gone_at) in [(sample(), 50), (expired, 100)] {
            assert!(!token.is_forgotten(gone_at + GONE_KEPT_MS - 1));
            assert!(token.is_forgotten(gone_at + GONE_KEPT_MS));
        }
    }

    #[test]
    fn without_namespaces_it_covers_all() {
        let other = Namespace::parse("other").unwrap();
        assert!(sample().covers(&Namespace::default()) && !sample().covers(&other));
        assert!(AccessToken { namespaces: Vec::new(), ..sample() }.covers(&other));
    }

    #[test]
    fn neither_secret_nor_hash_prints() {
        let token = sample();
        let hash = String::from(token.hash);
        assert!(!format!("{token:?}").contains(&hash[..16]), "{token:?}");
        assert_eq!(SecretHash::try_from(hash), Ok(token.hash));
    }
}
