//! Bulk operations, here or at a server.

use ff_api::bulk::{BulkDoc, BulkPreviewDoc, BulkRequest, Chosen};
use ff_core::Rejection;
use ff_core::registry::BulkVerb;
use ff_engine::Failure;
use ff_engine::bulk::{NewBulk, Which};

use super::Link;

fn new(verb: BulkVerb, request: &BulkRequest) -> Result<NewBulk, Failure> {
    let invalid = |it: ff_core::rejection::Invalid| Failure::Rejected(it.into());
    Ok(NewBulk {
        id: request.id.as_deref().map(Into::into),
        action: request.action(verb).map_err(invalid)?,
        which: match request.chosen().map_err(invalid)? {
            Chosen::Ids(ids) => Which::Ids(ids),
            Chosen::Filter(filter) => Which::Filter(filter),
        },
        rate: request.rate,
        namespaces: Vec::new(),
        actor: request.actor.as_deref().unwrap_or_default().into(),
        cause: request.cause.as_deref().unwrap_or_default().into(),
    })
}

impl Link {
    pub async fn start_bulk(&self, verb: BulkVerb, request: &BulkRequest) -> Result<BulkDoc, Failure> {
        match self {
            Link::Embedded(engine) => Ok(BulkDoc::from(&*engine.start_bulk(new(verb, request)?).await?)),
            Link::Remote(remote) => Box::pin(remote.start_bulk(verb, request)).await,
        }
    }

    pub async fn preview_bulk(
        &self,
        verb: BulkVerb,
        request: &BulkRequest,
    ) -> Result<BulkPreviewDoc, Failure> {
        match self {
            Link::Embedded(engine) => {
                let it = engine.preview_bulk(new(verb, request)?).await?;
                let (seen, done, more, first) = (it.seen, it.done, it.more, it.first);
                Ok(BulkPreviewDoc { dry_run: true, seen, done, more, first })
            }
            Link::Remote(remote) => Box::pin(remote.preview_bulk(verb, request)).await,
        }
    }

    pub async fn bulks(&self) -> Result<Vec<BulkDoc>, Failure> {
        match self {
            Link::Embedded(engine) => {
                Ok(engine.bulks().await?.iter().map(|it| BulkDoc::from(&**it)).collect())
            }
            Link::Remote(remote) => Box::pin(remote.bulks()).await,
        }
    }

    pub async fn bulk(&self, id: &str) -> Result<BulkDoc, Failure> {
        match self {
            Link::Embedded(engine) => {
                let missing = || Rejection::NotFound { what: "bulk operation".into(), id: id.to_owned() };
                let found = engine.bulk(id).await?.ok_or_else(|| Failure::Rejected(missing()))?;
                Ok(BulkDoc::from(&*found))
            }
            Link::Remote(remote) => Box::pin(remote.bulk(id)).await,
        }
    }

    pub async fn wait_bulk(&self, id: &str) -> Result<BulkDoc, Failure> {
        match self {
            Link::Embedded(engine) => Ok(BulkDoc::from(&*engine.wait_bulk(id).await?)),
            Link::Remote(remote) => Box::pin(remote.wait_bulk(id)).await,
        }
    }

    pub async fn stop_bulk(&self, id: &str, actor: &str, cause: &str) -> Result<BulkDoc, Failure> {
        match self {
            Link::Embedded(engine) => Ok(BulkDoc::from(&*engine.stop_bulk(id, actor, cause).await?)),
            Link::Remote(remote) => Box::pin(remote.stop_bulk(id, actor, cause)).await,
        }
    }
}
