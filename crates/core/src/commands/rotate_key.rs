//! Rotate the key that waitpoint tokens are signed with. Its home commits, every partition gets a copy, then the
//! caller is answered: a token made after that is good everywhere.

use super::{Decision, check_by};
use crate::Ms;
use crate::event::{By, Fact};
use crate::limits::Limits;
use crate::message::Message;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::{Delivery, Reply};
use crate::suspension::SigningKey;
use crate::suspension::token::Secret;
use crate::workspace::Workspace;

/// Makes a new key. Tokens of older keys stay good for the grace.
#[derive(Clone, Debug, PartialEq)]
pub struct RotateKey {
    /// Random, from the caller.
    pub secret: Secret,
    pub grace_ms: Ms,
    /// Only if there is none; the first server makes the first key.
    pub if_none: bool,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl RotateKey {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        Ok(range("grace", self.grace_ms, 0, limits.horizon_ms_max)?)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let newest = ws.newest_key().cloned();
        if let Some(key) = newest.as_ref().filter(|key| self.if_none || key.secret == self.secret) {
            let deliveries = ws.broadcast_again(Message::Key((**key).clone()), now);
            return Ok(Reply::Key { key: key.clone(), deliveries });
        }
        let retires_at = now.saturating_add(self.grace_ms);
        let mut deliveries = Vec::new();
        for old in ws.signing_keys().cloned().collect::<Vec<_>>() {
            if old.retires_at.is_none_or(|at| at > retires_at) {
                let key =
                    SigningKey { retires_at: Some(retires_at), revision: old.revision + 1, ..(*old).clone() };
                deliveries.extend(put(ws, key, now));
            }
        }
        let id = newest.map_or(0, |key| key.id) + 1;
        let key = SigningKey { id, secret: self.secret, created_at: now, retires_at: None, revision: 1 };
        deliveries.extend(put(ws, key, now));
        let by = By::new(&self.actor, &self.cause);
        ws.emit_global(None, now, Fact::KeyRotated { by, key: id, retires_at });
        let Some(key) = ws.signing_key(id).cloned() else {
            return Err(Rejection::NotFound { what: "key".into(), id: id.to_string() }.into());
        };
        Ok(Reply::Key { key, deliveries })
    }
}

/// Keeps a key here and sends its copy everywhere else.
fn put(ws: &mut Workspace, key: SigningKey, now: Ms) -> Vec<Delivery> {
    ws.put_signing_key(key.clone());
    ws.broadcast(Message::Key(key), now)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::id::PartitionId;

    #[test]
    fn a_rotation_retires_older_keys_after_the_grace_and_goes_to_every_partition() {
        let mut bench = Bench::of(PartitionId(0), 3, Limits::default());
        bench.ok(rotate_key(1, 0));
        let Reply::Key { key, deliveries } = bench.ok(rotate_key(2, 5_000)) else { panic!() };
        assert_eq!((key.id, key.retires_at), (2, None));
        assert_eq!(deliveries.len(), 4, "the new key and what became of the old one, to two others");
        assert_eq!(bench.store.signing_keys[&1].retires_at, Some(bench.now + 5_000));
        let events = bench.store.events.iter().filter(|event| event.fact.word() == "key_rotated");
        assert_eq!(events.count(), 2);
        // A shorter grace cuts the older one short, a longer one does not give it back.
        bench.ok(rotate_key(3, 100_000));
        assert_eq!(bench.store.signing_keys[&1].retires_at, Some(bench.now + 5_000));
        bench.ok(rotate_key(4, 0));
        assert_eq!(bench.store.signing_keys[&1].retires_at, Some(bench.now));
    }

    #[test]
    fn the_first_key_is_made_once_and_the_same_again_is_no_news() {
        let mut bench = Bench::new();
        let first = RotateKey { if_none: true, ..rotate_key(1, 0) };
        bench.ok(first);
        let second = RotateKey { if_none: true, ..rotate_key(2, 0) };
        let Reply::Key { key, .. } = bench.ok(second) else { panic!() };
        assert_eq!(key.id, 1);
        bench.ok(rotate_key(1, 0));
        assert_eq!(bench.store.signing_keys.len(), 1);
    }
}
