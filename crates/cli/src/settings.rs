//! Settings: a flag wins over the environment, that over the file, that over the default.

use std::path::PathBuf;
use std::time::Duration;

use flowfabric::Limits;

use crate::cli::{self, Global};
use crate::problem::Problem;
use crate::telemetry::Format;
use crate::{file, parse};

const STORE: &str = "sqlite:flowfabric.db";
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Settings {
    pub store: String,
    /// It was named on the command line, so it is meant for this command.
    pub store_is_named: bool,
    /// The server was named on the command line.
    pub server_is_named: bool,
    /// A server to use instead of the store.
    pub server: Option<String>,
    pub token: Option<String>,
    /// Authorities that the server's certificate is checked with beside those of the machine.
    pub ca_file: Option<PathBuf>,
    pub json: bool,
    pub limits: Limits,
    /// How long a command waits for a store that is locked, full or out of reach.
    pub patience: Duration,
    pub log: String,
    pub log_format: Format,
}

impl Settings {
    pub fn gather(global: &Global) -> Result<Settings, Problem> {
        let file = file::keys(global.config.as_deref(), &cli::command())?;
        let patience = file.patience.map(|text| parse::duration(&text)).transpose();
        let patience = patience.map_err(|error| Problem::usage(format!("patience: {error}")))?;
        let format = global.log_format.clone().or(file.log_format);
        // The environment has been taken into account where the command line was read.
        Ok(Settings {
            // Whoever names a store on the command line does not mean the server of the file.
            server: global.server.clone().or(file.server.filter(|_| global.store.is_none())),
            // The environment, where it is not on everybody's screen, wins; the SDK looks there.
            token: file.token.filter(|_| std::env::var_os("FLOWFABRIC_TOKEN").is_none()),
            store_is_named: global.store_is_named,
            server_is_named: global.server_is_named,
            store: global.store.clone().or(file.store).unwrap_or_else(|| STORE.to_owned()),
            ca_file: global.ca_file.clone().or(file.ca_file),
            json: global.json || file.json.unwrap_or(false),
            log: global.log.clone().or(file.log).or(usual_filter()).unwrap_or_else(|| "warn".to_owned()),
            log_format: format.map_or(Ok(Format::Text), |it| Format::parse(&it))?,
            patience: global.patience.or(patience).unwrap_or(PATIENCE),
            limits: file.limits.unwrap_or_default(),
        })
    }

    /// For what has a store of its own, whichever server the environment names for other commands.
    pub fn no_server(&self) -> Result<(), Problem> {
        match self.server_is_named {
            false => Ok(()),
            true => Err(Problem::usage("this has a store of its own; it does not work through a server")
                .hint("leave out --server; --store says which store it is to be")),
        }
    }

    /// For what only the owner of a store can do.
    pub fn embedded(&self) -> Result<Settings, Problem> {
        match &self.server {
            None => Ok(self.clone()),
            Some(_) => Err(Problem::usage("this works on a store, not through a server")
                .hint("give --store instead of --server")),
        }
    }
}

/// What programs in Rust are told by.
fn usual_filter() -> Option<String> {
    std::env::var("RUST_LOG").ok().filter(|it| !it.is_empty())
}
