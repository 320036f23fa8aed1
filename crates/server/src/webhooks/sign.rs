//! Signatures: how a receiver knows that a delivery is ours, new, and whole.

use ff_core::Ms;
use ff_core::base64;
use ff_core::registry::Webhook;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// What identifies a delivery: the same when it is tried again.
pub(super) fn message_id(webhook: &Webhook, to: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(webhook.id.as_bytes());
    hash.update([0]);
    hash.update(webhook.cursor.as_deref().unwrap_or_default().as_bytes());
    hash.update([0]);
    hash.update(to.as_bytes());
    let digits = hash.finalize()[..12].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("msg_{digits}")
}

/// The headers of a delivery, made from its body as it is sent.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) id: String,
    /// In seconds.
    pub(super) timestamp: String,
    pub(super) signature: String,
}

impl Signed {
    pub(super) fn new(webhook: &Webhook, id: String, now: Ms, body: &[u8]) -> Signed {
        let timestamp = (now / 1_000).to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(&webhook.secret.0).expect("a key of any length fits");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        let signature = format!("v1,{}", base64::encode(&mac.finalize().into_bytes()));
        Signed { id, timestamp, signature }
    }
}
