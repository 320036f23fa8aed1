//! Webhooks: set, listed, removed, and how far their deliveries have come.

use std::sync::Arc;

use ff_core::Reply;
use ff_core::commands::{NoteDelivery, RemoveWebhook, SetWebhook, TakeWebhook};
use ff_core::registry::{Record, RecordKind, Webhook};
use ff_core::rejection::Invalid;
use ff_core::suspension::token::Secret;

use super::secret::random;
use super::unexpected;
use crate::cursor::Cursor;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::subscription::{EventFilter, Start, SubscribeError};

/// When a webhook gets a new secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSecret {
    /// If it is made by this call.
    IfNew,
    Always,
}

impl Engine {
    /// Makes or changes a webhook as [`set_webhook`](Self::set_webhook) does, and tells the secret if this call has
    /// given it one. A new webhook gets one by itself; of several calls that make it at once, one does.
    pub async fn put_webhook(
        &self,
        mut command: SetWebhook,
        secret: NewSecret,
    ) -> Result<(Arc<Webhook>, Option<Secret>), Failure> {
        let fresh = Secret(random()?);
        match secret {
            NewSecret::IfNew => command.first_secret = Some(fresh),
            NewSecret::Always => command.secret = Some(fresh),
        }
        let webhook = self.set_webhook(command).await?;
        let secret = Some(fresh).filter(|fresh| *fresh == webhook.secret);
        Ok((webhook, secret))
    }

    /// Makes or changes a webhook. A new one begins with what happens from now on, unless the command says where.
    pub async fn set_webhook(&self, mut command: SetWebhook) -> Result<Arc<Webhook>, Failure> {
        match &command.begin {
            Some(cursor) => drop(cursor.parse::<Cursor>().map_err(bad_begin)?),
            None if self.webhook(&command.id).await?.is_none() => {
                let subscription = self.subscribe(EventFilter::default(), Start::Now).await;
                command.begin = Some(subscription.map_err(failed)?.cursor().to_string().into());
            }
            None => {}
        }
        webhook(self.execute(command).await?)
    }

    /// All webhooks in the order of their ids.
    pub async fn webhooks(&self) -> Result<Vec<Arc<Webhook>>, Failure> {
        self.read_webhooks(None).await
    }

    pub async fn webhook(&self, id: &str) -> Result<Option<Arc<Webhook>>, Failure> {
        Ok(self.read_webhooks(Some(id)).await?.pop())
    }

    async fn read_webhooks(&self, id: Option<&str>) -> Result<Vec<Arc<Webhook>>, Failure> {
        let (records, _) = self.records(RecordKind::Webhook, id.map(Into::into)).await?;
        let webhooks = records.iter().filter_map(|record| match &**record {
            Record::Webhook(webhook) => Some(Arc::new(webhook.clone())),
            _ => None,
        });
        Ok(webhooks.collect())
    }

    pub async fn remove_webhook(&self, id: &str, actor: &str, cause: &str) -> Result<(), Failure> {
        let command = RemoveWebhook { id: id.into(), actor: actor.into(), cause: cause.into() };
        match self.execute(command).await? {
            Reply::Removed => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes over the deliveries of a webhook from a server that is not [alive](Self::is_alive), or from nobody.
    pub async fn take_webhook(&self, id: &str, before: Option<Box<str>>) -> Result<Arc<Webhook>, Failure> {
        let server = Some(self.server().into());
        webhook(self.execute(TakeWebhook { webhook: id.into(), before, server }).await?)
    }

    /// Lets go of a webhook, so that another server may take it at once.
    pub async fn leave_webhook(&self, id: &str) -> Result<(), Failure> {
        let before = Some(self.server().into());
        self.execute(TakeWebhook { webhook: id.into(), before, server: None }).await.map(drop)
    }

    /// Notes what became of a delivery and tells where the webhook stands after it.
    pub async fn note_delivery(&self, command: NoteDelivery) -> Result<Arc<Webhook>, Failure> {
        webhook(self.execute(command).await?)
    }
}

fn webhook(reply: Reply) -> Result<Arc<Webhook>, Failure> {
    match reply {
        Reply::Webhook(webhook) => Ok(webhook),
        other => Err(unexpected(&other)),
    }
}

fn bad_begin(error: crate::cursor::BadCursor) -> Failure {
    Failure::Rejected(Invalid::new("begin", error.to_string()).into())
}

fn failed(error: SubscribeError) -> Failure {
    match error {
        SubscribeError::Store(error) => crate::engine::unavailable(error),
        SubscribeError::Cursor(error) => bad_begin(error),
    }
}
