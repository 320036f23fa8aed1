//! What a webhook receives.

use ff_core::commands::SetWebhook;
use ff_core::event::Family;
use ff_core::name::{LaneName, Namespace};
use ff_core::registry::{Delivery, Webhook};
use ff_core::rejection::Invalid;

use crate::event::EventDoc;
use crate::fields::word;
use crate::time::Time;

request! {
    /// A webhook to be made or changed; what is left out has its default.
    pub struct WebhookRequest {
        /// Where deliveries go.
        #[cfg_attr(feature = "openapi", schema(min_length = 8, max_length = 2048, example = "https://example.org/hooks"))]
        pub url: String,
        /// Only events of these families: `execution`, `lease`, `flow`, `signal`, `operator`; all if empty.
        #[serde(default)]
        pub families: Vec<String>,
        pub namespace: Option<String>,
        pub lane: Option<String>,
        /// Only these events, such as `completed`; all if empty.
        #[serde(default)]
        pub facts: Vec<String>,
        /// Nothing is delivered while it is paused; what happens meanwhile comes later.
        #[serde(default)]
        pub paused: bool,
        /// The place in the event log right after which a new webhook begins; with what happens from now on if it is left out.
        pub begin: Option<String>,
        /// Give it a new secret; a new webhook gets one by itself.
        #[serde(default)]
        pub new_secret: bool,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

impl WebhookRequest {
    /// The command it stands for, without a secret.
    ///
    /// # Errors
    /// The field that does not fit.
    pub fn command(self, id: &str, actor: &str) -> Result<SetWebhook, Invalid> {
        let families = self.families.iter().map(|it| word("families", it, Family::ALL, Family::word));
        Ok(SetWebhook {
            id: id.into(),
            url: self.url.into(),
            secret: None,
            first_secret: None,
            families: families.collect::<Result<_, _>>()?,
            namespace: self.namespace.as_deref().map(Namespace::parse).transpose()?,
            lane: self.lane.as_deref().map(LaneName::parse).transpose()?,
            facts: self.facts.into_iter().map(Into::into).collect(),
            paused: self.paused,
            begin: self.begin.map(Into::into),
            actor: actor.into(),
            cause: self.cause.unwrap_or_default().into(),
        })
    }
}

answer! {
    /// A webhook. Its secret is nowhere.
    pub struct WebhookDoc {
        pub id: String,
        pub url: String,
        pub families: Vec<String>,
        pub namespace: Option<String>,
        pub lane: Option<String>,
        pub facts: Vec<String>,
        pub paused: bool,
        pub created_at: Time,
        pub created_by: String,
        /// Everything up to here was delivered.
        pub cursor: Option<String>,
        /// How often in a row it failed.
        pub failures: u32,
        /// When it is tried again.
        pub next_at: Option<Time>,
        /// The last fifty deliveries, oldest first.
        pub deliveries: Vec<DeliveryLogDoc>,
    }
}

answer! {
    /// One try to deliver.
    pub struct DeliveryLogDoc {
        pub number: u64,
        pub at: Time,
        pub events: u32,
        pub status: Option<u16>,
        pub error: Option<String>,
        pub took_ms: i64,
        pub attempt: u32,
    }
}

impl From<&Delivery> for DeliveryLogDoc {
    fn from(it: &Delivery) -> DeliveryLogDoc {
        DeliveryLogDoc {
            number: it.number,
            at: Time(it.at),
            events: it.events,
            status: it.status,
            error: it.error.as_deref().map(str::to_owned),
            took_ms: it.took_ms,
            attempt: it.attempt,
        }
    }
}

impl From<&Webhook> for WebhookDoc {
    fn from(it: &Webhook) -> WebhookDoc {
        WebhookDoc {
            id: it.id.to_string(),
            url: it.url.to_string(),
            families: it.families.iter().map(|it| it.word().to_owned()).collect(),
            namespace: it.namespace.as_ref().map(|it| it.to_string()),
            lane: it.lane.as_ref().map(|it| it.to_string()),
            facts: it.facts.iter().map(|it| it.to_string()).collect(),
            paused: it.paused.is_some(),
            created_at: Time(it.created_at),
            created_by: it.created_by.actor.to_string(),
            cursor: it.cursor.as_deref().map(str::to_owned),
            failures: it.failures,
            next_at: it.next_at.map(Time),
            deliveries: it.recent.iter().map(Into::into).collect(),
        }
    }
}

answer! {
    /// A webhook that was made or changed.
    pub struct WebhookSet {
        pub webhook: WebhookDoc,
        /// What deliveries are signed with, in hexadecimal digits, if it is new. It is not shown again.
        pub secret: Option<String>,
    }
}

answer! {
    /// All webhooks.
    pub struct WebhooksDoc {
        pub webhooks: Vec<WebhookDoc>,
    }
}

answer! {
    /// The body of a delivery: events in the order in which they happened.
    pub struct DeliveryDoc {
        /// The id of the webhook.
        pub webhook: String,
        pub events: Vec<EventDoc>,
    }
}
