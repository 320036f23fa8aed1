//! What servers keep: access tokens and webhooks.

mod secret;
mod tokens;
mod webhooks;

use std::sync::Arc;

use ff_core::key::Ask;
use ff_core::registry::{HOME, Record, RecordKind, is_id};
use ff_core::workspace::Answer;
use ff_core::{Ms, Reply};

pub use secret::AccessSecret;
pub use tokens::NewToken;
pub(crate) use tokens::TokenCache;
pub use webhooks::NewSecret;

use crate::engine::{Engine, unavailable};
use crate::failure::Failure;

impl Engine {
    /// Records as they are committed, and the store's time.
    pub(crate) async fn records(
        &self,
        kind: RecordKind,
        id: Option<Box<str>>,
    ) -> Result<(Vec<Arc<Record>>, Ms), Failure> {
        let home = HOME.partition(self.store().info().partitions);
        let may_be = id.as_deref().is_none_or(is_id);
        let asks = Vec::from_iter(may_be.then_some(Ask::Registry { kind, id }));
        let loaded = self.store().load(home, asks).await.map_err(unavailable)?;
        let records = loaded.answers.into_iter().flat_map(|answer| match answer {
            Answer::Registry { records, .. } => records,
            _ => Vec::new(),
        });
        Ok((records.collect(), loaded.now))
    }
}

pub(crate) fn unexpected(reply: &Reply) -> Failure {
    Failure::Internal(format!("an answer to another question: {reply:?}"))
}
