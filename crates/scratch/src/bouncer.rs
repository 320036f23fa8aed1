//! PgBouncer in front of a server.

use std::time::{Duration, Instant};

use crate::account::Account;
use crate::keeper::{Keeper, quote};
use crate::url::Login;
use crate::{Error, find_pgbouncer, port, run_sql, with_database};

/// A pooler that gives a connection to a client for the time of one transaction. It ends when this value is dropped
/// or its process dies.
#[derive(Debug)]
pub struct Bouncer {
    /// Held for its end.
    _keeper: Keeper,
    url: String,
}

const LOG: &str = "bouncer.log";
const TRIES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(20);

impl Bouncer {
    /// Every database of the server can be reached through it, by its name and the server's password.
    ///
    /// # Errors
    /// There is no PgBouncer on this machine, it does not start, or the server does not answer.
    pub fn start(server_url: &str) -> Result<Bouncer, Error> {
        let (program, account, login) = (find_pgbouncer()?, Account::choose()?, Login::parse(server_url)?);
        let mut keeper = Keeper::start(account, "kill -KILL $pid && wait $pid")?;
        keeper.write("users.txt", &format!("\"{}\" \"{}\"\n", login.user, login.password))?;
        for _ in 0..TRIES {
            let port = port::free()?;
            keeper.write("bouncer.ini", &configuration(&login, port))?;
            keeper.run(&format!("{} --quiet bouncer.ini & pid=$!", quote(&program)))?;
            let Login { user, password, .. } = &login;
            let url = format!("postgres://{user}:{password}@127.0.0.1:{port}/postgres");
            if answers(&mut keeper, &url)? {
                return Ok(Bouncer { _keeper: keeper, url });
            }
        }
        Err(Error::new(format!("{} ended {TRIES} times: {}", program.display(), keeper.tail(LOG))))
    }

    /// The address of a database through the pooler.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        with_database(&self.url, database)
    }
}

/// Asks until it answers; `false` if it ended instead, for instance because another process took the port.
fn answers(keeper: &mut Keeper, url: &str) -> Result<bool, Error> {
    let started = Instant::now();
    loop {
        match run_sql(url, &["SELECT 1"]) {
            Ok(_) => return Ok(true),
            Err(_) if keeper.run("kill -0 $pid").is_err() => return Ok(false),
            Err(error) if started.elapsed() > PATIENCE => {
                return Err(Error::new(format!("PgBouncer does not answer: {error}\n{}", keeper.tail(LOG))));
            }
            Err(_) => {}
        }
    }
}

fn configuration(login: &Login, port: u16) -> String {
    format!(
        "[databases]\n\
         * = host={} port={}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         pool_mode = transaction\n\
         auth_type = scram-sha-256\n\
         auth_file = users.txt\n\
         max_client_conn = 1000\n\
         default_pool_size = 40\n\
         logfile = {LOG}\n",
        login.host, login.port
    )
}
