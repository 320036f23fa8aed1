//! A transaction that somebody has begun and not ended.

use crate::{Error, Session, run_sql};

/// Its snapshot keeps every row version alive that was visible when it began: vacuum removes nothing newer. It ends
/// when this value is dropped or its process dies.
#[derive(Debug)]
pub struct OpenTransaction {
    /// Held for its end.
    _session: Session,
    server_pid: u32,
    url: String,
}

/// The last statement takes the snapshot, and its row says that it was taken.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_backend_pid()";

impl OpenTransaction {
    /// # Errors
    /// The server cannot be reached within seconds, or refuses.
    pub fn begin(url: &str) -> Result<OpenTransaction, Error> {
        let mut session = Session::open(url)?;
        let told = session.run(BEGIN)?;
        let server_pid =
            told.parse().map_err(|_| Error::new(format!("psql began no transaction on {url}: {told}")))?;
        Ok(OpenTransaction { _session: session, server_pid, url: url.to_owned() })
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
