//! The registry: which answers about it are true.

use ff_core::change::Changes;
use ff_core::registry::{Record, RecordKey, Webhook};
use ff_core::{Command, Rejection, Reply};

use super::history::{History, Seq};
use super::mirror::{Mirror, put};

impl Mirror {
    pub(super) fn apply_registry(&mut self, changes: &Changes) {
        changes.registry.iter().for_each(|(key, record)| put(&mut self.registry, key, record));
    }
}

/// Whether an answer that only these commands have was true; `None` if it is another.
pub fn fits(history: &History, since: Seq, command: &Command, reply: &Reply) -> Option<bool> {
    let was = |record: Record| history.record_was(&record.key(), since, |was| was == Some(&record));
    Some(match (command, reply) {
        (Command::CreateToken(it), Reply::Token { token, .. }) => {
            token.id == it.id && token.hash == it.hash && was(Record::Token((**token).clone()))
        }
        (Command::RevokeToken(it), Reply::Token { token, .. }) => {
            token.id == it.id && token.revoked.is_some() && was(Record::Token((**token).clone()))
        }
        (Command::SetWebhook(it), Reply::Webhook(webhook)) => {
            webhook.id == it.id && webhook.url == it.url && was(Record::Webhook((**webhook).clone()))
        }
        (Command::NoteDelivery(it), Reply::Webhook(webhook)) => {
            webhook.id == it.webhook && was(Record::Webhook((**webhook).clone()))
        }
        (Command::RemoveWebhook(it), Reply::Removed) => {
            history.record_was(&RecordKey::webhook(&it.id), since, |was| was.is_none())
        }
        _ => return None,
    })
}

/// Whether a rejection that only these commands have was true; `None` if it is another.
pub fn was_true(history: &History, since: Seq, command: &Command, rejection: &Rejection) -> Option<bool> {
    Some(match (command, rejection) {
        (_, Rejection::NotFound { what, id }) if what == "token" => {
            history.record_was(&RecordKey::token(id), since, |was| was.is_none())
        }
        (_, Rejection::NotFound { what, id }) if what == "webhook" => {
            history.record_was(&RecordKey::webhook(id), since, |was| was.is_none())
        }
        (Command::CreateToken(it), Rejection::IdUsed { .. }) => {
            let other = |was: &Record| matches!(was, Record::Token(token) if token.hash != it.hash);
            history.record_was(&RecordKey::token(&it.id), since, |was| was.is_some_and(other))
        }
        (Command::NoteDelivery(it), Rejection::DeliverySuperseded { .. }) => {
            let elsewhere = |webhook: &Webhook| {
                let next = it.sent.as_ref().is_none_or(|sent| sent.number == webhook.tried + 1);
                webhook.cursor != it.from || !next
            };
            history.record_was(
                &RecordKey::webhook(&it.webhook),
                since,
                |was| matches!(was, Some(Record::Webhook(webhook)) if elsewhere(webhook)),
            )
        }
        _ => return None,
    })
}
