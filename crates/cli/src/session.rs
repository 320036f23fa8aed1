//! A command's connection to its store.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use flowfabric::{Fabric, Options};

use crate::problem::Problem;
use crate::settings::Settings;

/// How long what is on its way to the store may take when a command ends.
const GRACE: Duration = Duration::from_secs(5);

/// Whether a store that does not exist is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Commands that look at or change what is there: a new empty file would only hide a wrong path.
    Existing,
    OrCreate,
}

/// How patient a command is with its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// A person waits for the answer.
    Short,
    /// It goes on working when the store is back.
    Long,
}

/// Runs a command on the store and leaves it in order, whatever the command says.
pub async fn with<T, F: Future<Output = Result<T, Problem>>>(
    settings: &Settings,
    open: Open,
    patience: Patience,
    command: impl FnOnce(Fabric) -> F,
) -> Result<T, Problem> {
    if open == Open::Existing {
        check_exists(&settings.store)?;
    }
    let options = Options::new().limits(settings.limits.clone());
    let options = match patience {
        Patience::Short => options.command_timeout(settings.patience).retry_for(Duration::ZERO),
        Patience::Long => options,
    };
    let fabric = flowfabric::connect_with(&settings.store, options).await.map_err(|error| {
        let field = error.field().is_some();
        let problem = Problem::from(error);
        if field {
            problem.hint("set --store, FLOWFABRIC_STORE, or store in flowfabric.toml")
        } else {
            problem
        }
    })?;
    let result = command(fabric.clone()).await;
    fabric.shutdown(GRACE).await;
    result
}

fn check_exists(url: &str) -> Result<(), Problem> {
    match sqlite_path(url) {
        Some(path) if !path.exists() => {
            let text = format!("store: there is no file {}", path.display());
            Err(Problem::not_found(text)
                .hint("check --store; `flowfabric submit` and `flowfabric worker` make a new one"))
        }
        _ => Ok(()),
    }
}

/// The file that an address names, if it names one.
pub fn sqlite_path(url: &str) -> Option<PathBuf> {
    let rest = url.trim().strip_prefix("sqlite:")?;
    let path = rest.split('?').next().unwrap_or_default();
    let path = path.strip_prefix("//").unwrap_or(path);
    (!path.is_empty()).then(|| PathBuf::from(path))
}
