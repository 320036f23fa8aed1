//! A connection that comes back: made when it is needed, made anew when it was lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_store::StoreError;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Address;
use crate::error::explain;

/// After a failure everybody who asks within this time hears of the same failure.
const REST: Duration = Duration::from_millis(50);

/// How to reach the database.
#[derive(Clone)]
pub(crate) struct Place {
    address: Arc<Address>,
    tls: MakeRustlsConnect,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address.shown)
    }
}

impl Place {
    pub(crate) fn new(address: Address) -> Result<Place, StoreError> {
        let tls = crate::tls::connector(address.verify, address.roots.as_deref())?;
        Ok(Place { address: Arc::new(address), tls })
    }

    pub(crate) fn shown(&self) -> &str {
        &self.address.shown
    }

    /// A new connection, served by a task of the runtime this is called on.
    pub(crate) async fn connect(&self) -> Result<Client, StoreError> {
        let config = &self.address.config;
        let explain = |error| explain(self.shown(), &error);
        let all_local =
            config.get_hosts().iter().all(|host| matches!(host, tokio_postgres::config::Host::Unix(_)));
        if all_local {
            let (client, connection) = config.connect(NoTls).await.map_err(explain)?;
            tokio::spawn(served(self.shown().to_owned(), connection));
            return Ok(client);
        }
        let (client, connection) = config.connect(self.tls.clone()).await.map_err(explain)?;
        tokio::spawn(served(self.shown().to_owned(), connection));
        Ok(client)
    }
}

async fn served(
    place: String,
    connection: impl std::future::Future<Output = Result<(), tokio_postgres::Error>>,
) {
    if let Err(error) = connection.await {
        tracing::debug!("a connection to {place} ended: {}", crate::error::chain(&error));
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) place: Place,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    client: Option<Arc<Client>>,
    failed: Option<(Instant, StoreError)>,
}

impl Link {
    pub(crate) fn new(place: Place) -> Link {
        Link { place, state: Mutex::default() }
    }

    /// The connection, made anew if there is none that lives.
    pub(crate) async fn client(&self) -> Result<Arc<Client>, StoreError> {
        let mut state = self.state.lock().await;
        if let Some(client) = state.client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        if let Some((at, error)) = &state.failed
            && at.elapsed() < REST
        {
            return Err(error.clone());
        }
        match self.place.connect().await {
            Ok(client) => {
                let client = Arc::new(client);
                *state = State { client: Some(client.clone()), failed: None };
                Ok(client)
            }
            Err(error) => {
                // What must be put right at opening may be put right while an engine waits.
                let error = match error {
                    StoreError::Unusable(text) => StoreError::Unavailable(text),
                    error => error,
                };
                *state = State { client: None, failed: Some((Instant::now(), error.clone())) };
                Err(error)
            }
        }
    }

    /// Forgets the connection; what was sent on it is still answered.
    pub(crate) async fn close(&self) {
        self.state.lock().await.client = None;
    }
}
