//! Webhooks of a server.

use ff_api::fields::Why;
use ff_api::webhook::{WebhookDoc, WebhookRequest, WebhookSet, WebhooksDoc};
use ff_engine::Failure;
use hyper::Method;

use super::http::Call;
use super::query::escape;
use super::{Remote, document};

fn of(id: &str) -> String {
    let mut path = "/v1/webhooks/".to_owned();
    escape(&mut path, id);
    path
}

impl Remote {
    pub async fn set_webhook(&self, id: &str, settings: WebhookRequest) -> Result<WebhookSet, Failure> {
        self.change(Call::send(Method::PUT, of(id), document(&settings)?)).await
    }

    pub async fn webhooks(&self) -> Result<Vec<WebhookDoc>, Failure> {
        let WebhooksDoc { webhooks } = self.question(Call::get("/v1/webhooks")).await?;
        Ok(webhooks)
    }

    pub async fn webhook(&self, id: &str) -> Result<WebhookDoc, Failure> {
        self.question(Call::get(of(id))).await
    }

    pub async fn remove_webhook(&self, id: &str, actor: &str, cause: &str) -> Result<(), Failure> {
        let why = Why { actor: Some(actor.to_owned()), cause: Some(cause.to_owned()) };
        let done: serde_json::Value =
            self.change(Call::send(Method::DELETE, of(id), document(&why)?)).await?;
        drop(done);
        Ok(())
    }
}
