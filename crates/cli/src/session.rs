//! A command's connection to its store.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ff_store::Store;
use flowfabric::{Error, Fabric, Options, Probe};

use crate::problem::Problem;
use crate::settings::Settings;

/// How long what is on its way to the store may take when a command ends.
const GRACE: Duration = Duration::from_secs(5);

/// How long before whoever waits asks again.
const AGAIN: Duration = Duration::from_millis(500);

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
    if open == Open::Existing && settings.server.is_none() {
        check_exists(&settings.store)?;
    }
    let options = options(settings, patience);
    let address = settings.server.as_ref().unwrap_or(&settings.store);
    let fabric = flowfabric::connect_with(address, options).await.map_err(|error| {
        let (field, away) = (error.field().is_some(), matches!(error, Error::Unavailable(_)));
        let problem = Problem::from(error);
        match &settings.server {
            None if field => problem.hint("set --store, FLOWFABRIC_STORE, or store in flowfabric.toml"),
            Some(_) if field => problem.hint("set --server, FLOWFABRIC_SERVER, or server in flowfabric.toml"),
            Some(server) if away => {
                problem.hint(format!("is there a server at {server}? `flowfabric serve` starts one"))
            }
            _ => problem,
        }
    })?;
    let result = command(fabric.clone()).await;
    fabric.shutdown(GRACE).await;
    result
}

/// Waits for the end of something that is stored, also while the store or the server is away: it goes on without whoever
/// waits for it, and must not be taken for lost.
pub async fn until_ended<T>(wait: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let mut told = false;
    loop {
        match wait().await {
            Err(error @ (Error::Unavailable(_) | Error::Busy { .. })) => {
                if !std::mem::replace(&mut told, true) {
                    eprintln!("note: {error}; it is stored, and this waits until there is an answer again");
                }
                tokio::time::sleep(AGAIN).await;
            }
            ended => return ended,
        }
    }
}

fn options(settings: &Settings, patience: Patience) -> Options {
    let options = Options::new().limits(settings.limits.clone());
    let options = match patience {
        Patience::Short => options.command_timeout(settings.patience).retry_for(Duration::ZERO),
        Patience::Long => options,
    };
    let options = match &settings.token {
        Some(token) => options.token(token.as_str()),
        None => options,
    };
    match &settings.ca_file {
        Some(path) => options.ca_file(path),
        None => options,
    }
}

/// The server, to be asked how it is; none if this command works on a store.
pub fn probe(settings: &Settings) -> Result<Option<Probe>, Problem> {
    let probe = |server: &String| Probe::new(server, &options(settings, Patience::Short));
    Ok(settings.server.as_ref().map(probe).transpose()?)
}

/// The store alone, without an engine on it.
pub async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, Problem> {
    settings.embedded()?;
    check_exists(&settings.store)?;
    Ok(flowfabric::open_store(&settings.store, &Options::new()).await?)
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

/// An address as it may be shown: the password belongs to whoever typed it.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let rest = match rest.rsplit_once('@') {
        Some((user, place)) => format!("{}@{place}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    let options: Vec<&str> = options.split('&').filter(|it| !it.starts_with("password=")).collect();
    match options.join("&").as_str() {
        "" => format!("{scheme}://{rest}"),
        options => format!("{scheme}://{rest}?{options}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        for (url, want) in [
            (
                "postgres://ada:p@ss@db.example/jobs?partitions=3",
                "postgres://ada@db.example/jobs?partitions=3",
            ),
            ("postgres://db.example/jobs?password=secret", "postgres://db.example/jobs"),
            ("postgres://ada@db.example/jobs", "postgres://ada@db.example/jobs"),
            ("sqlite:jobs.db", "sqlite:jobs.db"),
        ] {
            assert_eq!(without_password(url), want);
        }
    }
}
