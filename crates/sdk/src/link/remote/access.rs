//! Access tokens of a server.

use ff_api::access::{TokenDoc, TokenMade, TokenRequest, TokensDoc};
use ff_api::fields::Why;
use ff_engine::Failure;
use hyper::Method;

use super::http::Call;
use super::query::escape;
use super::{Remote, document, post};

impl Remote {
    pub async fn create_token(&self, new: TokenRequest) -> Result<(TokenDoc, String), Failure> {
        let TokenMade { token, secret } = self.change(post("/v1/tokens", &new)?).await?;
        Ok((token, secret))
    }

    pub async fn tokens(&self) -> Result<Vec<TokenDoc>, Failure> {
        let TokensDoc { tokens } = self.question(Call::get("/v1/tokens")).await?;
        Ok(tokens)
    }

    pub async fn revoke_token(&self, id: &str, actor: &str, cause: &str) -> Result<TokenDoc, Failure> {
        let why = Why { actor: Some(actor.to_owned()), cause: Some(cause.to_owned()) };
        // Only ids of our own making reach the path.
        let id: String = id.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '_').collect();
        let mut path = "/v1/tokens/".to_owned();
        escape(&mut path, &id);
        self.change(Call::send(Method::DELETE, path, document(&why)?)).await
    }
}
