//! Statements through `psql`, so that nothing here depends on a client library.

use std::process::{Command, Stdio};

use crate::{Binaries, Error};

/// Runs statements one after the other, each in a transaction of its own, and gives what they print: a line per row,
/// columns divided by `|`.
///
/// # Errors
/// The server cannot be reached within seconds, or refuses a statement.
pub fn run_sql(url: &str, statements: &[&str]) -> Result<String, Error> {
    let mut command = psql(url)?;
    command.stdin(Stdio::null());
    for statement in statements {
        command.args(["--command", statement]);
    }
    let output = command.output().map_err(|error| Error::doing("starting psql", error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(Error::new(format!("psql: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// `psql`, connected to `url`, that prints rows and nothing else.
pub(crate) fn psql(url: &str) -> Result<Command, Error> {
    let binaries = Binaries::find()?;
    let mut command = Command::new(binaries.program("psql"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("PGCONNECT_TIMEOUT", "5");
    command.args(["--no-psqlrc", "--no-password", "--quiet", "--tuples-only", "--no-align"]);
    command.args(["--set=ON_ERROR_STOP=1", "--dbname", url]);
    Ok(command)
}
