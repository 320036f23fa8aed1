//! Access tokens: who may call a server, and what for.

pub use ff_api::access::{TokenDoc as TokenInfo, TokenRequest as NewToken};
pub use ff_core::registry::Role;

use crate::{Error, Fabric};

impl Fabric {
    /// Makes a token for callers of a server; its secret is told here and never again.
    ///
    /// # Errors
    /// `invalid` if a field does not fit.
    pub async fn create_token(&self, new: NewToken) -> Result<(TokenInfo, String), Error> {
        // Sent twice it would make two tokens; whoever asked looks and asks again.
        Ok(self.link().create_token(new).await?)
    }

    /// All tokens, oldest first, without their secrets.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn tokens(&self) -> Result<Vec<TokenInfo>, Error> {
        self.retried(|| self.link().tokens()).await
    }

    /// Revokes a token. Servers refuse it within a second.
    ///
    /// # Errors
    /// `not_found` if there is none with this id.
    pub async fn revoke_token(&self, id: &str, actor: &str, cause: &str) -> Result<TokenInfo, Error> {
        self.retried(|| self.link().revoke_token(id, actor, cause)).await
    }
}
