//! Access tokens and what the server says about itself.

use ff_core::registry::AccessToken;

use crate::time::{Span, Time};

request! {
    /// A token to be made.
    pub struct TokenRequest {
        /// For people: whose or what it is. It is the actor of everything done with it.
        #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 128, example = "billing-worker"))]
        pub name: String,
        /// `viewer`, `worker`, `operator` or `admin`.
        #[cfg_attr(feature = "openapi", schema(example = "worker"))]
        pub role: String,
        /// The namespaces it is good for; all if empty.
        #[serde(default)]
        pub namespaces: Vec<String>,
        /// Whether a viewer sees inputs, results and other payloads.
        #[serde(default)]
        pub see_payloads: bool,
        /// It expires after so long; never if it is left out.
        pub expires_in_ms: Option<Span>,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

answer! {
    /// A token. Its secret is nowhere.
    pub struct TokenDoc {
        pub id: String,
        pub name: String,
        pub role: String,
        pub namespaces: Vec<String>,
        pub see_payloads: bool,
        pub created_at: Time,
        pub created_by: String,
        pub expires_at: Option<Time>,
        pub revoked_at: Option<Time>,
        pub revoked_by: Option<String>,
    }
}

impl From<&AccessToken> for TokenDoc {
    fn from(it: &AccessToken) -> TokenDoc {
        TokenDoc {
            id: it.id.to_string(),
            name: it.name.to_string(),
            role: it.role.word().to_owned(),
            namespaces: it.namespaces.iter().map(|it| it.to_string()).collect(),
            see_payloads: it.see_payloads,
            created_at: Time(it.created_at),
            created_by: it.created_by.actor.to_string(),
            expires_at: it.expires_at.map(Time),
            revoked_at: it.revoked.as_ref().map(|it| Time(it.at)),
            revoked_by: it.revoked.as_ref().map(|it| it.by.actor.to_string()),
        }
    }
}

answer! {
    /// A token that was made. The secret is not stored and not shown again.
    pub struct TokenMade {
        pub token: TokenDoc,
        pub secret: String,
    }
}

answer! {
    /// All tokens.
    pub struct TokensDoc {
        pub tokens: Vec<TokenDoc>,
    }
}

answer! {
    /// What the server says about itself.
    pub struct InfoDoc {
        pub version: String,
        /// Which records it speaks; see [`crate::record`].
        pub records: u32,
        /// The name under which it has entered the store.
        pub server: String,
        /// The kind of store.
        pub store: String,
        pub now: Time,
        /// Whether callers need a token.
        pub authentication: bool,
        /// The role of the caller.
        pub role: String,
    }
}
