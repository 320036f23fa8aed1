//! What a fabric says about itself.

use ff_api::access::InfoDoc;
use serde::Serialize;

use crate::link::Link;
use crate::{Error, Fabric};

/// Where a fabric keeps its work, and what its caller may do there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct About {
    pub version: String,
    /// The kind of store: `sqlite`, `postgres` or `memory`.
    pub store: String,
    /// The name under which the engine has entered its store.
    pub server: String,
    /// Whether callers need a token.
    pub authentication: bool,
    /// The caller's role. Whoever has the store itself may do everything.
    pub role: String,
}

impl Fabric {
    /// What this fabric is: of an embedded one its store, of a remote one what its server tells.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn about(&self) -> Result<About, Error> {
        let remote = match self.link() {
            Link::Remote(remote) => remote,
            Link::Embedded(engine) => {
                return Ok(About {
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    store: engine.store().info().kind.to_owned(),
                    server: engine.server().to_owned(),
                    authentication: false,
                    role: "admin".to_owned(),
                });
            }
        };
        let InfoDoc { version, store, server, authentication, role, .. } =
            self.retried(|| remote.info()).await?;
        Ok(About { version, store, server, authentication, role })
    }
}
