//! Secrets of access tokens: made here, shown once, never stored.

use std::fmt;

use ff_core::base64;
use ff_core::registry::SecretHash;

use crate::failure::Failure;

const PREFIX: &str = "ffk_";

/// What the holder of a token shows. Only [`reveal`](Self::reveal) prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessSecret(String);

impl AccessSecret {
    /// A new one: `ffk_` and 32 random bytes in the alphabet of addresses.
    pub(super) fn new() -> Result<AccessSecret, Failure> {
        Ok(AccessSecret::of(&random::<32>()?))
    }

    fn of(bytes: &[u8]) -> AccessSecret {
        let text = base64::encode(bytes).replace('+', "-").replace('/', "_");
        AccessSecret(format!("{PREFIX}{}", text.trim_end_matches('=')))
    }

    /// Whether a text could be one, good or not.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl fmt::Debug for AccessSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessSecret")
    }
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Internal(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_base64url_without_padding() {
        for (bytes, text) in [
            (&[][..], ""),
            (&[0], "AA"),
            (&[0xff], "_w"),
            (&[0xfb, 0xff], "-_8"),
            (b"any carnal pleas", "YW55IGNhcm5hbCBwbGVhcw"),
            (&[0; 32], &"A".repeat(43)),
        ] {
            assert_eq!(AccessSecret::of(bytes).reveal(), format!("ffk_{text}"));
        }
    }

    #[test]
    fn no_two_are_alike_and_none_prints() {
        let [a, b] = [AccessSecret::new().unwrap(), AccessSecret::new().unwrap()];
        assert_ne!(a, b);
        assert_eq!((a.reveal().len(), format!("{a:?}").as_str()), (47, "AccessSecret"));
        assert_ne!(a.hash(), b.hash());
    }
}
