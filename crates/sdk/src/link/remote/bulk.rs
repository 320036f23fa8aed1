//! Bulk operations of a server.

use ff_api::bulk::{BulkDoc, BulkPreviewDoc, BulkRequest, BulksDoc};
use ff_api::fields::Why;
use ff_core::registry::BulkVerb;
use ff_engine::Failure;

use super::http::Call;
use super::query::{Query, escape};
use super::{Remote, WAIT, post};

/// The path of an operation, whatever its id is made of.
fn of(id: &str) -> String {
    let mut path = "/v1/bulk/".to_owned();
    escape(&mut path, id);
    path
}

impl Remote {
    pub async fn start_bulk(&self, verb: BulkVerb, request: &BulkRequest) -> Result<BulkDoc, Failure> {
        self.change(post(format!("/v1/bulk/{verb}"), request)?).await
    }

    pub async fn preview_bulk(
        &self,
        verb: BulkVerb,
        request: &BulkRequest,
    ) -> Result<BulkPreviewDoc, Failure> {
        self.question(post(format!("/v1/bulk/{verb}"), request)?).await
    }

    pub async fn bulks(&self) -> Result<Vec<BulkDoc>, Failure> {
        let BulksDoc { bulks } = self.question(Call::get("/v1/bulk")).await?;
        Ok(bulks)
    }

    pub async fn bulk(&self, id: &str) -> Result<BulkDoc, Failure> {
        self.question(Call::get(of(id))).await
    }

    /// Asks for the end until it is there.
    pub async fn wait_bulk(&self, id: &str) -> Result<BulkDoc, Failure> {
        let query = Query::new(of(id)).set("wait", format!("{}s", WAIT.as_secs()));
        let call = Call::get(query.path()).waiting(WAIT);
        self.await_answer(call, |bulk: BulkDoc| (!bulk.is_running()).then_some(bulk)).await
    }

    pub async fn stop_bulk(&self, id: &str, actor: &str, cause: &str) -> Result<BulkDoc, Failure> {
        let why = Why { actor: Some(actor.to_owned()), cause: Some(cause.to_owned()) };
        self.change(post(format!("{}/stop", of(id)), &why)?).await
    }
}
