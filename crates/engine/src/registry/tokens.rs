//! Access tokens: made, listed, revoked, and found by their secrets.

use std::sync::{Arc, PoisonError, RwLock};

use ff_core::commands::{CreateToken, RevokeToken};
use ff_core::registry::{AccessToken, Record, RecordKind, Role, SecretHash};
use ff_core::{Ms, Namespace, Reply};
use rustc_hash::FxHashMap;
use tokio::sync::Mutex;

use super::secret::{AccessSecret, random};
use super::unexpected;
use crate::engine::Engine;
use crate::failure::Failure;

/// How old the tokens in memory may be: for so long another server may not know of a revocation.
const FRESH_MS: Ms = 1_000;

/// What a new token is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NewToken {
    /// For people.
    pub name: Box<str>,
    pub role: Role,
    /// Empty: all of them.
    pub namespaces: Vec<Namespace>,
    /// Whether it shows inputs, results and other content.
    pub see_payloads: bool,
    /// Absent: it is good until it is revoked.
    pub expires_in_ms: Option<Ms>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

/// All tokens as they were a moment ago.
#[derive(Debug)]
struct Snapshot {
    /// By the hash of their secrets. How long a look-up takes may depend on the hash of what was sent, and whoever
    /// sends it knows that hash already; it tells nothing about the secret of a token, of which only the hash is here.
    tokens: FxHashMap<SecretHash, Arc<AccessToken>>,
    /// The store's time when they were read, and the process's own.
    store_now: Ms,
    local_now: Ms,
}

/// The tokens in memory.
#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    snapshot: RwLock<Option<Arc<Snapshot>>>,
    /// Held while they are read, so that many callers read them once, and so that what was read before a change is
    /// not kept after it.
    reading: Mutex<()>,
}

impl TokenCache {
    fn get(&self, local_now: Ms) -> Option<Arc<Snapshot>> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().filter(|it| local_now.saturating_sub(it.local_now) < FRESH_MS).cloned()
    }

    fn set(&self, snapshot: Option<Arc<Snapshot>>) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

impl Engine {
    /// Makes a token. Its secret is told here and never again.
    pub async fn create_token(&self, new: NewToken) -> Result<(Arc<AccessToken>, AccessSecret), Failure> {
        let secret = AccessSecret::new()?;
        let command = CreateToken {
            id: format!("tok_{:016x}", u64::from_be_bytes(random()?)).into(),
            name: new.name,
            hash: secret.hash(),
            role: new.role,
            namespaces: new.namespaces,
            see_payloads: new.see_payloads,
            expires_in_ms: new.expires_in_ms,
            actor: new.actor,
            cause: new.cause,
        };
        Ok((self.change_token(command).await?, secret))
    }

    /// Makes a token good for nothing, here from when this returns, on other servers within a second.
    pub async fn revoke_token(
        &self,
        id: &str,
        actor: &str,
        cause: &str,
    ) -> Result<Arc<AccessToken>, Failure> {
        let (id, actor, cause) = (id.into(), actor.into(), cause.into());
        self.change_token(RevokeToken { id, actor, cause }).await
    }

    async fn change_token(&self, command: impl Into<ff_core::Command>) -> Result<Arc<AccessToken>, Failure> {
        let reply = self.execute(command).await;
        // Whatever became of it: it may have been carried out.
        let cache = self.token_cache();
        let _reading = cache.reading.lock().await;
        cache.set(None);
        match reply? {
            Reply::Token { token, .. } => Ok(token),
            other => Err(unexpected(&other)),
        }
    }

    /// All tokens, oldest first, also those that are revoked or have expired.
    pub async fn tokens(&self) -> Result<Vec<Arc<AccessToken>>, Failure> {
        let mut tokens = self.read_tokens().await?.0;
        tokens.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(tokens)
    }

    /// The token with this secret, if there is one and it is good now.
    ///
    /// # Errors
    /// If the tokens in memory are too old and the store cannot be read: nobody is let in on old knowledge.
    pub async fn token_of(&self, secret: &str) -> Result<Option<Arc<AccessToken>>, Failure> {
        self.token_with(&SecretHash::of(secret)).await
    }

    /// The token whose secret has this hash, if there is one and it is good now.
    ///
    /// # Errors
    /// As [`token_of`](Self::token_of).
    pub async fn token_with(&self, hash: &SecretHash) -> Result<Option<Arc<AccessToken>>, Failure> {
        let snapshot = match self.token_cache().get(self.local_now()) {
            Some(snapshot) => snapshot,
            None => self.refresh_tokens().await?,
        };
        let passed = self.local_now().saturating_sub(snapshot.local_now).max(0);
        let now = snapshot.store_now.saturating_add(passed);
        let token = snapshot.tokens.get(hash);
        Ok(token.filter(|token| token.check(now).is_ok()).cloned())
    }

    async fn refresh_tokens(&self) -> Result<Arc<Snapshot>, Failure> {
        let cache = self.token_cache();
        let _reading = cache.reading.lock().await;
        // Another caller may have read them meanwhile.
        let local_now = self.local_now();
        if let Some(snapshot) = cache.get(local_now) {
            return Ok(snapshot);
        }
        let (tokens, store_now) = self.read_tokens().await?;
        let tokens = tokens.into_iter().map(|token| (token.hash, token)).collect();
        // Their age counts from before they were read.
        let snapshot = Arc::new(Snapshot { tokens, store_now, local_now });
        cache.set(Some(snapshot.clone()));
        Ok(snapshot)
    }

    async fn read_tokens(&self) -> Result<(Vec<Arc<AccessToken>>, Ms), Failure> {
        let (records, now) = self.records(RecordKind::Token, None).await?;
        let tokens = records.iter().filter_map(|record| match &**record {
            Record::Token(token) => Some(Arc::new(token.clone())),
            _ => None,
        });
        Ok((tokens.collect(), now))
    }
}
