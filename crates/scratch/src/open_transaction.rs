//! A transaction that somebody has begun and not ended.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use crate::sql::psql;
use crate::{Error, run_sql};

/// Its snapshot keeps every row version alive that was visible when it began: vacuum removes nothing newer. It ends
/// when this value is dropped or its process dies.
#[derive(Debug)]
pub struct OpenTransaction {
    psql: Child,
    server_pid: u32,
    url: String,
}

/// The last statement takes the snapshot, and its row says that it was taken.
const BEGIN: &str = "\
SET idle_in_transaction_session_timeout = 0;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_backend_pid();
";

impl OpenTransaction {
    /// # Errors
    /// The server cannot be reached within seconds, or refuses.
    pub fn begin(url: &str) -> Result<OpenTransaction, Error> {
        let mut command = psql(url)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let psql = command.spawn().map_err(|error| Error::doing("starting psql", error))?;
        let mut open = OpenTransaction { psql, server_pid: 0, url: url.to_owned() };
        open.server_pid = open.take_snapshot()?;
        Ok(open)
    }

    fn take_snapshot(&mut self) -> Result<u32, Error> {
        let (Some(stdin), Some(stdout)) = (&mut self.psql.stdin, self.psql.stdout.take()) else {
            return Err(Error::new("psql has no pipes"));
        };
        let mut line = String::new();
        stdin
            .write_all(BEGIN.as_bytes())
            .and_then(|()| stdin.flush())
            .and_then(|()| BufReader::new(stdout).read_line(&mut line))
            .map_err(|error| Error::doing("beginning a transaction", error))?;
        line.trim().parse().map_err(|_| Error::new(format!("psql began no transaction on {}", self.url)))
    }

    /// How many transactions have begun since; nothing that they removed can be cleaned up.
    ///
    /// # Errors
    /// The transaction is no longer open, or the server cannot be reached.
    pub fn held_back(&self) -> Result<u64, Error> {
        let ask = format!("SELECT age(backend_xmin) FROM pg_stat_activity WHERE pid = {}", self.server_pid);
        let answer = run_sql(&self.url, &[&ask])?;
        answer.trim().parse().map_err(|_| Error::new("the transaction is no longer open"))
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // Without standard input psql ends, and its connection takes the transaction with it.
        drop(self.psql.stdin.take());
        let _ = self.psql.wait();
    }
}
