//! Take over the deliveries of a webhook from a server that is gone, or from nobody. One server at a time delivers;
//! which it is, is stored, so that all agree. It is no event: that would be delivered.

use std::sync::Arc;

use super::{Decision, check_text};
use crate::Ms;
use crate::registry::{Record, RecordKey, Webhook};
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

const SERVER_BYTES_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub struct TakeWebhook {
    pub webhook: Box<str>,
    /// Who delivered so far.
    pub before: Option<Box<str>>,
    /// Who delivers from now on; nobody if a server lets go.
    pub server: Option<Box<str>>,
}

impl TakeWebhook {
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        for server in self.before.iter().chain(&self.server) {
            check_text("server", server, SERVER_BYTES_MAX)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, _now: Ms) -> Decision {
        let Some(Record::Webhook(known)) = ws.record(&RecordKey::webhook(&self.webhook))?.map(|it| &**it)
        else {
            return Err(Rejection::NotFound { what: "webhook".into(), id: self.webhook.to_string() }.into());
        };
        if known.server == self.server {
            return Ok(Reply::Webhook(Arc::new(known.clone())));
        }
        if known.server != self.before {
            return Err(Rejection::DeliverySuperseded { webhook: self.webhook.clone() }.into());
        }
        let webhook = Webhook { server: self.server.clone(), ..known.clone() };
        ws.put_record(Record::Webhook(webhook.clone()));
        Ok(Reply::Webhook(Arc::new(webhook)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SetWebhook;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn of_two_servers_one_takes_over() {
        let mut bench = Bench::new();
        bench.ok(set_webhook("hook"));
        let events = bench.store.events.len();
        let server = |reply: Reply| match reply {
            Reply::Webhook(webhook) => webhook.server.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(server(bench.ok(take_webhook(None, Some("one")))).as_deref(), Some("one"));
        assert_eq!(server(bench.ok(take_webhook(None, Some("one")))).as_deref(), Some("one"));
        let late = bench.run(take_webhook(None, Some("two")));
        assert_eq!(late.unwrap_err().code(), "delivery_superseded");
        bench.ok(take_webhook(Some("one"), Some("two")));
        assert_eq!(bench.run(take_webhook(Some("one"), None)).unwrap_err().code(), "delivery_superseded");
        assert_eq!(server(bench.ok(take_webhook(Some("two"), None))), None);
        assert_eq!(bench.store.events.len(), events, "it is no event");
        bench.ok(remove_webhook("hook"));
        assert_eq!(bench.run(take_webhook(None, Some("one"))).unwrap_err().code(), "not_found");
    }

    #[test]
    fn a_change_by_people_leaves_it_with_its_server() {
        let mut bench = Bench::new();
        bench.ok(set_webhook("hook"));
        bench.ok(take_webhook(None, Some("one")));
        let Reply::Webhook(webhook) = bench.ok(SetWebhook { paused: true, ..set_webhook("hook") }) else {
            panic!()
        };
        assert_eq!(webhook.server.as_deref(), Some("one"));
    }
}
