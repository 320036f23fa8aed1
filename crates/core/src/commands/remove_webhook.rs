//! Remove a webhook: nothing is delivered to it any more, and what it remembers goes with it.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::registry::RecordKey;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct RemoveWebhook {
    pub id: Box<str>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl RemoveWebhook {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let key = RecordKey::webhook(&self.id);
        if ws.record(&key)?.is_none() {
            return Err(Rejection::NotFound { what: "webhook".into(), id: self.id.to_string() }.into());
        }
        let by = By::new(&self.actor, &self.cause);
        ws.emit_global(None, now, Fact::WebhookRemoved { by, webhook: self.id.clone() });
        ws.drop_record(key);
        Ok(Reply::Removed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_webhook_goes_once_and_its_id_may_be_used_again() {
        let mut bench = Bench::new();
        bench.ok(create_token("hook", 1));
        bench.ok(set_webhook("hook"));
        assert_eq!(bench.ok(remove_webhook("hook")), Reply::Removed);
        assert_eq!(bench.store.events.last().unwrap().fact.word(), "webhook_removed");
        let left: Vec<_> = bench.store.registry.keys().cloned().collect();
        assert_eq!(left, [RecordKey::token("hook")], "a token of the same id stays");
        assert_eq!(bench.run(remove_webhook("hook")).unwrap_err().code(), "not_found");
        let Reply::Webhook(webhook) = bench.ok(set_webhook("hook")) else { panic!() };
        assert_eq!(webhook.revision, 1);
    }
}
