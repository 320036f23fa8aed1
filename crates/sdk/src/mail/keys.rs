//! The keys that tokens are signed with. Their secrets do not leave the engine.

use std::time::Duration;

use ff_core::Ms;
use ff_core::suspension::SigningKey;
use serde::Serialize;

use crate::time::ms;
use crate::{Error, Fabric};

/// A key, without its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeyInfo {
    /// From 1; tokens name it.
    pub id: u32,
    pub created_at: Ms,
    /// From when on tokens signed with it are refused; absent for the newest.
    pub retires_at: Option<Ms>,
}

impl KeyInfo {
    pub(crate) fn of(key: &SigningKey) -> KeyInfo {
        KeyInfo { id: key.id, created_at: key.created_at, retires_at: key.retires_at }
    }
}

impl Fabric {
    /// Makes a new key for tokens. Tokens of older keys stay good for the grace; with none, they end now. The first
    /// key is made by itself.
    ///
    /// # Errors
    /// `invalid` if the grace is too long.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # use std::time::Duration;
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let key = fabric.rotate_key(Duration::from_secs(3600), "ada", "quarterly").await?;
    /// assert_eq!(fabric.keys().await?, [key]);
    /// # Ok(()) }
    /// ```
    pub async fn rotate_key(&self, grace: Duration, actor: &str, cause: &str) -> Result<KeyInfo, Error> {
        // Sent twice it would make two keys; whoever asked looks and asks again.
        Ok(self.link().rotate_key(ms(grace), actor, cause).await?)
    }

    /// All keys, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>, Error> {
        self.retried(|| self.link().signing_keys()).await
    }
}
