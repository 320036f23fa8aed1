//! Access tokens, here or at a server.

use ff_api::access::{TokenDoc, TokenRequest};
use ff_api::fields::word;
use ff_core::Namespace;
use ff_core::registry::Role;
use ff_engine::Failure;
use ff_engine::registry::NewToken;

use super::Link;

impl Link {
    pub async fn create_token(&self, new: TokenRequest) -> Result<(TokenDoc, String), Failure> {
        let engine = match self {
            Link::Embedded(engine) => engine,
            Link::Remote(remote) => return Box::pin(remote.create_token(new)).await,
        };
        let invalid = |it: ff_core::rejection::Invalid| Failure::Rejected(it.into());
        let namespaces: Result<Vec<Namespace>, _> =
            new.namespaces.iter().map(|it| Namespace::parse(it)).collect();
        let new = NewToken {
            name: new.name.into(),
            role: word("role", &new.role, Role::ALL, Role::word).map_err(invalid)?,
            namespaces: namespaces.map_err(invalid)?,
            see_payloads: new.see_payloads,
            expires_in_ms: new.expires_in_ms.map(|it| it.0),
            actor: new.actor.unwrap_or_default().into(),
            cause: new.cause.unwrap_or_default().into(),
        };
        let (token, secret) = engine.create_token(new).await?;
        Ok((TokenDoc::from(&*token), secret.reveal().to_owned()))
    }

    pub async fn tokens(&self) -> Result<Vec<TokenDoc>, Failure> {
        match self {
            Link::Embedded(engine) => {
                Ok(engine.tokens().await?.iter().map(|it| TokenDoc::from(&**it)).collect())
            }
            Link::Remote(remote) => Box::pin(remote.tokens()).await,
        }
    }

    pub async fn revoke_token(&self, id: &str, actor: &str, cause: &str) -> Result<TokenDoc, Failure> {
        match self {
            Link::Embedded(engine) => Ok(TokenDoc::from(&*engine.revoke_token(id, actor, cause).await?)),
            Link::Remote(remote) => Box::pin(remote.revoke_token(id, actor, cause)).await,
        }
    }
}
