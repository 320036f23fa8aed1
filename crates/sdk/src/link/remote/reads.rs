//! Questions about executions, lanes and workers.

use std::sync::Arc;

use ff_api::execution::CountDoc;
use ff_api::record::{
    Attempts, Counts, Ended as EndedRecord, ExecutionRecord, Executions, Lanes, PayloadRecord, Workers,
};
use ff_core::attempt::Attempt;
use ff_core::lane::Lane;
use ff_core::payload::Slot;
use ff_core::query::{CountKey, Filter, Page, PageAsk};
use ff_core::worker::WorkerInstance;
use ff_core::{Execution, ExecutionId, Payload};
use ff_engine::explain::Explanation;
use ff_engine::{Ended, Failure};

use super::http::Call;
use super::query::{Query, filter};
use super::{Remote, WAIT};

impl Remote {
    pub async fn get(&self, id: ExecutionId) -> Result<Option<Arc<Execution>>, Failure> {
        let found: Option<ExecutionRecord> = self.find(Call::get(format!("/v1/executions/{id}"))).await?;
        Ok(found.map(|it| it.execution))
    }

    pub async fn payload(&self, id: ExecutionId, slot: Slot) -> Result<Option<Payload>, Failure> {
        let found: Option<PayloadRecord> = match slot {
            Slot::Input => self.find(Call::get(format!("/v1/executions/{id}/input"))).await?,
            Slot::Result => {
                let ended: Option<EndedRecord> =
                    self.find(Call::get(format!("/v1/executions/{id}/result"))).await?;
                return Ok(ended.and_then(|it| it.result));
            }
        };
        match found {
            None => Ok(None),
            Some(PayloadRecord { payload: Some(payload) }) => Ok(Some(payload)),
            Some(_) => {
                let detail = "the input is hidden from this token; use one that may see payloads".to_owned();
                Err(Failure::Refused { code: "forbidden", detail })
            }
        }
    }

    pub async fn attempts(&self, id: ExecutionId) -> Result<Vec<Attempt>, Failure> {
        let found: Attempts = self.question(Call::get(format!("/v1/executions/{id}/attempts"))).await?;
        Ok(found.attempts)
    }

    /// Asks for the end until it is there.
    pub async fn wait(&self, id: ExecutionId) -> Result<Ended, Failure> {
        let path =
            Query::new(format!("/v1/executions/{id}/result")).set("wait", format!("{}s", WAIT.as_secs()));
        let call = Call::get(path.path()).waiting(WAIT);
        self.await_answer(call, |EndedRecord { execution, result }| {
            execution.map(|execution| Ended { execution, result })
        })
        .await
    }

    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Failure> {
        self.question(Call::get(format!("/v1/executions/{id}/explain"))).await
    }

    pub async fn list(&self, ask: PageAsk) -> Result<Page, Failure> {
        let query = filter(Query::new("/v1/executions"), &ask.filter)
            .order(ask.order)
            .maybe("cursor", ask.after)
            .set("limit", ask.limit)
            .set("scan", ask.scan_max);
        let Executions { executions, next } = self.question(Call::get(query.path())).await?;
        Ok(Page { executions, next })
    }

    pub async fn count(&self, wanted: &Filter) -> Result<(u64, bool), Failure> {
        let query = filter(Query::new("/v1/executions/count"), wanted);
        let CountDoc { count, more } = self.question(Call::get(query.path())).await?;
        Ok((count, more))
    }

    pub async fn counts(&self) -> Result<Vec<(CountKey, u64)>, Failure> {
        let found: Counts = self.question(Call::get("/v1/executions/counts")).await?;
        Ok(found.counts)
    }

    pub async fn lanes_and_workers(&self) -> Result<(Vec<Arc<Lane>>, Vec<Arc<WorkerInstance>>), Failure> {
        let Lanes { lanes } = self.question(Call::get("/v1/lanes")).await?;
        let Workers { workers } = self.question(Call::get("/v1/workers")).await?;
        Ok((lanes, workers))
    }
}
