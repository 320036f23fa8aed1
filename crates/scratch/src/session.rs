//! A session that stays open between statements, so that a test can hold a lock while something else runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::sql::psql;
use crate::{Error, run_sql};

/// It ends when this value is dropped or its process dies, and what was not committed is undone.
#[derive(Debug)]
pub struct Session {
    psql: Child,
    said: BufReader<ChildStdout>,
    /// The newest statements that were sent, for the error message.
    sent: String,
}

/// What psql says when everything before has been carried out.
const DONE: &str = "-- done";
const PATIENCE: Duration = Duration::from_secs(30);

impl Session {
    /// # Errors
    /// The server cannot be reached within seconds, or refuses.
    pub fn open(url: &str) -> Result<Session, Error> {
        let mut command = psql(url)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut psql = command.spawn().map_err(|error| Error::doing("starting psql", error))?;
        let said = psql.stdout.take().ok_or_else(|| Error::new("psql has no pipes"))?;
        let mut session = Session { psql, said: BufReader::new(said), sent: String::new() };
        // A server that ends forgotten transactions must not end this one.
        session.run("SET idle_in_transaction_session_timeout = 0")?;
        Ok(session)
    }

    /// Runs statements and gives what they print: a line per row, columns divided by `|`.
    ///
    /// # Errors
    /// A statement was refused; the session is over then.
    pub fn run(&mut self, statements: &str) -> Result<String, Error> {
        self.start(statements)?;
        self.finish()
    }

    /// Sends statements and does not wait for them: they may have to wait for others.
    ///
    /// # Errors
    /// The session is over.
    pub fn start(&mut self, statements: &str) -> Result<(), Error> {
        statements.clone_into(&mut self.sent);
        let Some(stdin) = &mut self.psql.stdin else { return Err(Error::new("psql has no pipes")) };
        writeln!(stdin, "{statements};\n\\echo {DONE}")
            .and_then(|()| stdin.flush())
            .map_err(|error| Error::doing(statements, error))
    }

    /// Waits for what was started.
    ///
    /// # Errors
    /// A statement was refused; the session is over then.
    pub fn finish(&mut self) -> Result<String, Error> {
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            let read = self.said.read_line(&mut line).map_err(|error| Error::doing(&self.sent, error))?;
            if read == 0 {
                return Err(Error::new(format!("the session ended at {}", self.sent)));
            }
            if line.trim_end() == DONE {
                return Ok(printed.trim_end().to_owned());
            }
            printed += &line;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without standard input psql ends, and its connection takes the transaction with it.
        drop(self.psql.stdin.take());
        let _ = self.psql.wait();
    }
}

/// Waits until so many statements in this database wait for locks.
///
/// # Errors
/// The server cannot be reached, or they do not come to wait within 30 seconds.
pub fn until_blocked(url: &str, count: usize) -> Result<(), Error> {
    let ask = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let started = Instant::now();
    loop {
        let blocked = run_sql(url, &[ask])?;
        if blocked == count.to_string() {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(Error::new(format!("{blocked} statements wait for locks, not {count}")));
        }
    }
}
