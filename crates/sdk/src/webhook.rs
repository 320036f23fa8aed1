//! Webhooks: addresses to which servers deliver events.

pub use ff_api::webhook::{
    DeliveryLogDoc as DeliveryInfo, WebhookDoc as WebhookInfo, WebhookRequest as WebhookSettings,
};

use crate::{Error, Fabric};

impl Fabric {
    /// Makes a webhook or changes one, with its secret if this call has given it one; that is told here and never again.
    ///
    /// # Errors
    /// `invalid` if a field does not fit.
    pub async fn set_webhook(
        &self,
        id: &str,
        settings: WebhookSettings,
    ) -> Result<(WebhookInfo, Option<String>), Error> {
        // Sent twice, the answer that has the secret would be lost; whoever asked looks and asks again.
        Ok(self.link().set_webhook(id, settings).await?)
    }

    /// All webhooks in the order of their ids, without their secrets.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn webhooks(&self) -> Result<Vec<WebhookInfo>, Error> {
        self.retried(|| self.link().webhooks()).await
    }

    /// A webhook with its last deliveries.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn webhook(&self, id: &str) -> Result<WebhookInfo, Error> {
        self.retried(|| self.link().webhook(id)).await
    }

    /// Removes a webhook with what it remembers.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn remove_webhook(&self, id: &str, actor: &str, cause: &str) -> Result<(), Error> {
        self.retried(|| self.link().remove_webhook(id, actor, cause)).await
    }
}
