//! How a server is: questions that need no connection that lasts.

use crate::link::remote::{Address, Asking};
use crate::{Error, Options};

/// A server that is asked how it is. Nothing has to be agreed on before, so that it works against a server of any release,
/// and against one that does not answer anything else.
///
/// # Example
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Options, Probe};
///
/// let probe = Probe::new("http://127.0.0.1:7400", &Options::new())?;
/// probe.ready().await?;
/// println!("{}", probe.metrics().await?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Probe(Asking);

impl Probe {
    /// The server at an address. Each question may take as long as a [command](Options::command_timeout); none is asked
    /// twice.
    ///
    /// # Errors
    /// `invalid` if it is not the address of a server, or the file with the authorities cannot be read.
    pub fn new(url: &str, options: &Options) -> Result<Probe, Error> {
        Ok(Probe(Asking::new(Address::parse(url)?, options)?))
    }

    /// Whether its process lives. Needs no token.
    ///
    /// # Errors
    /// There is no answer, or not that of a server.
    pub async fn alive(&self) -> Result<(), Error> {
        self.0.text("/healthz").await.map(|_| ())
    }

    /// Whether requests should be sent to it. Needs no token.
    ///
    /// # Errors
    /// As [`alive`](Probe::alive); it is about to stop, or its store is out of reach.
    pub async fn ready(&self) -> Result<(), Error> {
        self.0.text("/readyz").await.map(|_| ())
    }

    /// Its figures, in the text that Prometheus reads.
    ///
    /// # Errors
    /// As [`ready`](Probe::ready); the token may not see them.
    pub async fn metrics(&self) -> Result<String, Error> {
        self.0.text("/metrics").await
    }
}
