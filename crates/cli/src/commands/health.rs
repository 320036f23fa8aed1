//! `flowfabric health`

use clap::Args;
use flowfabric::Error;
use serde_json::json;

use crate::problem::{Exit, Problem};
use crate::session;
use crate::settings::Settings;
use crate::view;

/// Ask a server or a store whether it is well; the exit code is 0 if it is and 1 if not
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric health --server http://127.0.0.1:7400
  flowfabric health --server http://127.0.0.1:7400 --ready --patience 2s
  flowfabric health --store postgres://localhost/jobs

A server is asked whether its process lives; with --ready, whether requests should be sent to it:
not when it is about to stop, and not while its store is out of reach. Neither needs a token. A
store is asked whether it answers. --patience is how long that may take. Restart what does not live,
but not what is only not ready.")]
pub struct Health {
    /// Ask whether requests should be sent there
    #[arg(long)]
    ready: bool,
}

impl Health {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let asked = tokio::time::timeout(settings.patience, self.ask(settings)).await;
        let place = settings.server.as_deref().unwrap_or(&settings.store);
        let late = || {
            let (place, patience) = (session::without_password(place), settings.patience);
            Problem::error(format!("{place} gave no answer within {patience:?}"))
        };
        match asked.unwrap_or_else(|_| Err(late())) {
            Ok(()) if settings.json => view::document(&json!({ "status": "ok" })),
            Ok(()) => view::line("ok"),
            // What is asked wrongly says nothing about whoever is asked.
            Err(problem) if problem.exit == Exit::Usage => Err(problem),
            // Programs that ask for health know two answers.
            Err(problem) => Err(problem.with_exit(Exit::Error)),
        }
    }

    async fn ask(&self, settings: &Settings) -> Result<(), Problem> {
        match session::probe(settings)? {
            Some(server) if self.ready => server.ready().await.map_err(told),
            Some(server) => server.alive().await.map_err(told),
            None if self.ready => Err(Problem::usage("--ready is asked of a server, and none is named")
                .hint("give --server, or leave out --ready: a store is only asked whether it answers")),
            None => {
                let store = session::open_store(settings).await?;
                let status = store.status().await;
                store.close().await;
                status.map(|_| ()).map_err(|error| told(error.into()))
            }
        }
    }
}

/// What others say of a command that was not carried out does not fit a question.
fn told(error: Error) -> Problem {
    match error {
        Error::Unavailable(text) => Problem::error(text),
        error => error.into(),
    }
}
