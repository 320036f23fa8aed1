//! The registry: which answers about it are true. Several changes of one commit leave one record, so that what was
//! answered in between is found in the events.

use ff_core::change::Changes;
use ff_core::event::Fact;
use ff_core::registry::{BulkOperation, Record, RecordKey, Webhook};
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
    Some(match (command, reply) {
        (Command::CreateToken(it), Reply::Token { token, existing }) => {
            let created = |word: &Fact| matches!(word, Fact::TokenCreated { token, .. } if *token == it.id);
            let from = if *existing { 0 } else { since };
            token.id == it.id
                && token.hash == it.hash
                && history.registered(from, |event| event.at == token.created_at && created(&event.fact))
        }
        (Command::RevokeToken(it), Reply::Token { token, existing }) => {
            let revoked = |word: &Fact| matches!(word, Fact::TokenRevoked { token, .. } if *token == it.id);
            let (from, at) = (if *existing { 0 } else { since }, token.revoked.as_ref().map(|it| it.at));
            token.id == it.id
                && history.registered(from, |event| Some(event.at) == at && revoked(&event.fact))
        }
        (Command::SetWebhook(it), Reply::Webhook(webhook)) => {
            let set = |word: &Fact| {
                matches!(word, Fact::WebhookSet { webhook: id, revision, .. }
                    if *id == it.id && *revision == webhook.revision)
            };
            webhook.id == it.id && webhook.url == it.url && history.registered(0, |event| set(&event.fact))
        }
        (Command::RemoveWebhook(it), Reply::Removed) => removed(history, since, &it.id),
        (Command::TakeWebhook(it), Reply::Webhook(webhook)) => {
            webhook.server == it.server && stood(history, since, webhook)
        }
        (Command::NoteDelivery(it), Reply::Webhook(webhook)) => {
            webhook.id == it.webhook && stood(history, since, webhook)
        }
        (Command::StartBulk(it), Reply::Bulk { bulk, existing }) => {
            let begun = |word: &Fact| matches!(word, Fact::BulkStarted { bulk, .. } if *bulk == it.id);
            let from = if *existing { 0 } else { since };
            bulk.id == it.id
                && bulk.rate == it.rate
                && history.registered(from, |event| event.at == bulk.started_at && begun(&event.fact))
        }
        (Command::StopBulk(it), Reply::Bulk { bulk, .. }) => {
            !bulk.is_running() && has_come(history, since, &it.id, bulk)
        }
        (Command::TakeBulk(it), Reply::Bulk { bulk, .. }) => {
            (bulk.server == it.server || !bulk.is_running()) && has_come(history, since, &it.bulk, bulk)
        }
        // Every part counts once, whatever becomes of answers.
        (Command::AdvanceBulk(it), Reply::Bulk { bulk, .. }) => {
            bulk.parts == it.part
                && bulk.counts.seen == 2 * bulk.parts
                && has_come(history, since, &it.bulk, bulk)
        }
        _ => return None,
    })
}

/// Whether an operation had come as far as this at some moment since, or was written by a commit since.
fn has_come(history: &History, since: Seq, id: &str, bulk: &BulkOperation) -> bool {
    let key = RecordKey::bulk(id);
    let as_far = |was: &BulkOperation| was.started_at == bulk.started_at && was.parts >= bulk.parts;
    *bulk.id == *id
        && (history.record_was(&key, since, |was| was.and_then(BulkOperation::of).is_some_and(as_far))
            || history.record_changed(&key, since))
}

fn removed(history: &History, since: Seq, id: &str) -> bool {
    let fits = |word: &Fact| matches!(word, Fact::WebhookRemoved { webhook, .. } if **webhook == *id);
    history.registered(since, |event| fits(&event.fact))
}

/// Whether a webhook had come as far as this at some moment since, or went in the same commit.
fn stood(history: &History, since: Seq, webhook: &Webhook) -> bool {
    let as_far = |was: Option<&Record>| {
        matches!(was, Some(Record::Webhook(was))
            if was.created_at == webhook.created_at && was.tried >= webhook.tried)
    };
    history.record_was(&RecordKey::webhook(&webhook.id), since, as_far)
        || removed(history, since, &webhook.id)
}

/// Whether a rejection that only these commands have was true; `None` if it is another.
pub fn was_true(history: &History, since: Seq, command: &Command, rejection: &Rejection) -> Option<bool> {
    Some(match (command, rejection) {
        (_, Rejection::NotFound { what, id }) if what == "token" => {
            history.record_was(&RecordKey::token(id), since, |was| was.is_none())
        }
        (_, Rejection::NotFound { what, id }) if what == "webhook" => {
            history.record_was(&RecordKey::webhook(id), since, |was| was.is_none())
                || removed(history, since, id)
        }
        (_, Rejection::NotFound { what, id }) if what == "bulk operation" => {
            history.record_was(&RecordKey::bulk(id), since, |was| was.is_none())
        }
        (Command::StartBulk(it), Rejection::IdUsed { .. }) => {
            let key = RecordKey::bulk(&it.id);
            let other = |was: &BulkOperation| was.rate != it.rate;
            history.record_was(&key, since, |was| was.and_then(BulkOperation::of).is_some_and(other))
                || history.record_changed(&key, since)
        }
        (Command::TakeBulk(it), Rejection::BulkSuperseded { .. }) => {
            passed(history, since, &it.bulk, |bulk| bulk.server != it.before)
        }
        (Command::AdvanceBulk(it), Rejection::BulkSuperseded { .. }) => {
            passed(history, since, &it.bulk, |bulk| {
                let mine = bulk.server.as_ref() == Some(&it.server);
                !mine || bulk.parts + 1 != it.part || !bulk.is_running()
            })
        }
        (Command::CreateToken(it), Rejection::IdUsed { .. }) => {
            let other = |was: &Record| matches!(was, Record::Token(token) if token.hash != it.hash);
            history.record_was(&RecordKey::token(&it.id), since, |was| was.is_some_and(other))
        }
        (Command::TakeWebhook(it), Rejection::DeliverySuperseded { .. }) => {
            elsewhere(history, since, &it.webhook, |webhook| webhook.server != it.before)
        }
        (Command::NoteDelivery(it), Rejection::DeliverySuperseded { .. }) => {
            elsewhere(history, since, &it.webhook, |webhook| {
                let next = it.sent.as_ref().is_none_or(|sent| sent.number == webhook.tried + 1);
                webhook.server.as_ref() != Some(&it.server) || webhook.cursor != it.from || !next
            })
        }
        _ => return None,
    })
}

/// Whether a webhook stood elsewhere at some moment since, or passed there within a commit.
fn elsewhere(history: &History, since: Seq, id: &str, fits: impl Fn(&Webhook) -> bool) -> bool {
    let key = RecordKey::webhook(id);
    history.record_was(&key, since, |was| matches!(was, Some(Record::Webhook(webhook)) if fits(webhook)))
        || history.record_changed(&key, since)
}

/// Whether an operation stood elsewhere at some moment since, or passed there within a commit.
fn passed(history: &History, since: Seq, id: &str, fits: impl Fn(&BulkOperation) -> bool) -> bool {
    let key = RecordKey::bulk(id);
    history.record_was(&key, since, |was| was.and_then(BulkOperation::of).is_some_and(&fits))
        || history.record_changed(&key, since)
}
