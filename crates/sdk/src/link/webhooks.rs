//! Webhooks, here or at a server.

use ff_api::webhook::{WebhookDoc, WebhookRequest, WebhookSet};
use ff_core::Rejection;
use ff_engine::Failure;
use ff_engine::registry::NewSecret;

use super::Link;

impl Link {
    pub async fn set_webhook(
        &self,
        id: &str,
        settings: WebhookRequest,
    ) -> Result<(WebhookDoc, Option<String>), Failure> {
        let engine = match self {
            Link::Embedded(engine) => engine,
            Link::Remote(remote) => {
                let WebhookSet { webhook, secret } = Box::pin(remote.set_webhook(id, settings)).await?;
                return Ok((webhook, secret));
            }
        };
        let secret = if settings.new_secret { NewSecret::Always } else { NewSecret::IfNew };
        let actor = settings.actor.clone().unwrap_or_default();
        let command = settings.command(id, &actor).map_err(|it| Failure::Rejected(it.into()))?;
        let (webhook, secret) = engine.put_webhook(command, secret).await?;
        Ok((WebhookDoc::from(&*webhook), secret.map(String::from)))
    }

    pub async fn webhooks(&self) -> Result<Vec<WebhookDoc>, Failure> {
        match self {
            Link::Embedded(engine) => {
                Ok(engine.webhooks().await?.iter().map(|it| WebhookDoc::from(&**it)).collect())
            }
            Link::Remote(remote) => Box::pin(remote.webhooks()).await,
        }
    }

    pub async fn webhook(&self, id: &str) -> Result<WebhookDoc, Failure> {
        match self {
            Link::Embedded(engine) => {
                let missing = || Rejection::NotFound { what: "webhook".into(), id: id.to_owned() };
                let found = engine.webhook(id).await?.ok_or_else(|| Failure::Rejected(missing()))?;
                Ok(WebhookDoc::from(&*found))
            }
            Link::Remote(remote) => Box::pin(remote.webhook(id)).await,
        }
    }

    pub async fn remove_webhook(&self, id: &str, actor: &str, cause: &str) -> Result<(), Failure> {
        match self {
            Link::Embedded(engine) => engine.remove_webhook(id, actor, cause).await,
            Link::Remote(remote) => Box::pin(remote.remove_webhook(id, actor, cause)).await,
        }
    }
}
