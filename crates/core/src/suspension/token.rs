//! Tokens for outsiders: whoever holds one may signal one waitpoint, and nothing else.
//!
//! A token is not stored. It can be made again from the waitpoint and a key, and is checked in the same way.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Digest, WaitpointId};
use crate::Ms;

type HmacSha256 = Hmac<Sha256>;

/// A key that tokens are signed with. Its home is one partition; all others have a copy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    /// From 1; one more with each rotation.
    pub id: u32,
    pub secret: Secret,
    pub created_at: Ms,
    /// From when on tokens signed with it are refused; absent while it is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retires_at: Option<Ms>,
    pub revision: u64,
}

impl SigningKey {
    /// Whether tokens signed with it are refused, so that nothing needs it any more.
    pub fn is_retired(&self, now: Ms) -> bool {
        self.retires_at.is_some_and(|at| at <= now)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SigningKey { id, created_at, retires_at, revision, .. } = self;
        write!(
            f,
            "SigningKey {{ id: {id}, created_at: {created_at}, retires_at: {retires_at:?}, revision: {revision} }}"
        )
    }
}

/// 32 random bytes that nobody prints.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> String {
        hex(&secret.0)
    }
}

impl TryFrom<String> for Secret {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Secret, Self::Error> {
        from_hex(&text).map(Secret).ok_or("a secret is 64 hexadecimal digits")
    }
}

/// What a token speaks for: everything that must not change between making and using it.
#[derive(Debug)]
pub struct Claims<'a> {
    pub namespace: &'a str,
    pub waitpoint: WaitpointId,
    pub expires_at: Option<Ms>,
    pub digest: Option<Digest>,
}

impl Claims<'_> {
    fn mac(&self, key: &SigningKey) -> HmacSha256 {
        let mut mac = HmacSha256::new_from_slice(&key.secret.0).expect("a key of any length fits");
        mac.update(b"flowfabric waitpoint v1\0");
        mac.update(self.namespace.as_bytes());
        mac.update(&[0]);
        mac.update(self.waitpoint.execution.0.as_bytes());
        mac.update(&self.waitpoint.number.to_be_bytes());
        // What is absent differs from every value it could have.
        mac.update(&[u8::from(self.expires_at.is_some()), u8::from(self.digest.is_some())]);
        mac.update(&self.expires_at.unwrap_or(0).to_be_bytes());
        mac.update(&self.digest.map_or([0; 32], |digest| digest.0));
        mac
    }

    /// The token for it under a key.
    pub fn sign(&self, key: &SigningKey) -> TokenText {
        let mac = self.mac(key).finalize().into_bytes();
        TokenText(format!("v1.{}.{}.{}", key.id, self.waitpoint, hex(&mac)))
    }

    /// Whether the token was made for exactly this, in a time that does not depend on how far it fits.
    pub fn verify(&self, key: &SigningKey, token: &Token) -> bool {
        self.mac(key).verify_slice(&token.mac).is_ok()
    }
}

/// A token as it is handed out. It prints as its fingerprint; only [`reveal`](Self::reveal) shows it.
/// It is written out only in the answer to whoever asked for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenText(String);

impl TokenText {
    /// A token that came in an answer.
    pub fn from_answer(text: String) -> TokenText {
        TokenText(text)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What may be printed: enough to recognise a token, too little to use it.
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::digest(self.0.as_bytes());
        hex(&hash[..6])
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.fingerprint())
    }
}

/// The text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadToken;

/// A token that was sent in, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub key: u32,
    pub waitpoint: WaitpointId,
    mac: [u8; 32],
}

impl Token {
    /// Whether a text could be one, good or not.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with("v1.")
    }

    /// The text it was taken from.
    pub fn text(&self) -> TokenText {
        TokenText(format!("v1.{}.{}.{}", self.key, self.waitpoint, hex(&self.mac)))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.waitpoint)
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Token, BadToken> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(BadToken);
        let (version, key, waitpoint, mac) = (next()?, next()?, next()?, next()?);
        if version != "v1" || parts.next().is_some() || key.starts_with(['0', '+']) {
            return Err(BadToken);
        }
        Ok(Token {
            key: key.parse().map_err(|_| BadToken)?,
            waitpoint: waitpoint.parse().map_err(|_| BadToken)?,
            mac: from_hex(mac).ok_or(BadToken)?,
        })
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 64 lower-case hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |it: u8| match it {
        b'0'..=b'9' => Some(it - b'0'),
        b'a'..=b'f' => Some(it - b'a' + 10),
        _ => None,
    };
    let bytes: [u8; 64] = text.as_bytes().try_into().ok()?;
    let mut result = [0; 32];
    for (at, pair) in bytes.chunks_exact(2).enumerate() {
        result[at] = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ExecutionId, Route};

    fn key(id: u32, byte: u8) -> SigningKey {
        SigningKey { id, secret: Secret([byte; 32]), created_at: 1, retires_at: None, revision: 1 }
    }

    fn claims() -> Claims<'static> {
        let waitpoint = WaitpointId { execution: ExecutionId::from_parts(5, Route(6), 7), number: 3 };
        Claims { namespace: "default", waitpoint, expires_at: Some(99), digest: Some(Digest([7; 32])) }
    }

    #[test]
    fn a_token_opens_what_it_was_made_for_and_nothing_else() {
        let text = claims().sign(&key(1, 1));
        let token: Token = text.reveal().parse().unwrap();
        assert_eq!((token.key, token.waitpoint), (1, claims().waitpoint));
        assert!(claims().verify(&key(1, 1), &token));
        let other = WaitpointId { number: 4, ..claims().waitpoint };
        let foreign = WaitpointId { execution: ExecutionId::from_parts(5, Route(6), 8), number: 3 };
        let wrong = [
            Claims { namespace: "defaul", ..claims() },
            Claims { waitpoint: other, ..claims() },
            Claims { waitpoint: foreign, ..claims() },
            Claims { expires_at: Some(100), ..claims() },
            Claims { expires_at: None, ..claims() },
            Claims { digest: Some(Digest([8; 32])), ..claims() },
            Claims { digest: None, ..claims() },
        ];
        assert!(wrong.iter().all(|it| !it.verify(&key(1, 1), &token)));
        assert!(!claims().verify(&key(1, 2), &token), "signed with another key");
    }

    #[test]
    fn a_token_that_is_not_written_exactly_so_is_none() {
        let text = claims().sign(&key(1, 1));
        let good = text.reveal();
        let (head, mac) = good.rsplit_once('.').unwrap();
        let bad = [
            String::new(),
            "v1".into(),
            good.replacen("v1", "v2", 1),
            good.replacen("v1.1.", "v1.01.", 1),
            good.replacen("v1.1.", "v1.+1.", 1),
            good.replacen("v1.1.", "v1..", 1),
            good.replacen("-3.", "-03.", 1),
            good.replacen("-3.", "-+3.", 1),
            good.replacen("-3.", ".", 1),
            format!("{head}.{}", &mac[1..]),
            format!("{head}.{}", mac.to_uppercase()),
            format!("{head}.{}é", &mac[2..]),
            format!("{good}."),
            format!(" {good}"),
        ];
        for text in bad {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
        assert_eq!(good.parse::<Token>().map(|it| it.text().reveal().to_owned()).as_deref(), Ok(good));
    }

    #[test]
    fn neither_tokens_nor_secrets_print() {
        let text = claims().sign(&key(1, 0xab));
        let mac = text.reveal().rsplit_once('.').unwrap().1.to_owned();
        let token: Token = text.reveal().parse().unwrap();
        for printed in [format!("{text:?}"), format!("{token:?}"), format!("{:?}", key(1, 0xab))] {
            assert!(!printed.contains(&mac) && !printed.contains("abab"), "{printed}");
        }
        assert_eq!(text.fingerprint().len(), 12);
    }
}
