//! A PostgreSQL server of one's own.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::account::Account;
use crate::keeper::{Keeper, quote};
use crate::{Binaries, Error, Settings, port, random, run_sql, template, with_database};

/// A server in a temporary folder, on a free port of 127.0.0.1. It ends when this value is dropped or its process
/// dies, and nothing of it is left.
#[derive(Debug)]
pub struct Cluster {
    keeper: Mutex<Keeper>,
    binaries: Binaries,
    account: Account,
    settings: Settings,
    port: u16,
    password: String,
}

const LOG: &str = "server.log";
/// How often another port is tried.
const TRIES: usize = 5;

impl Cluster {
    /// # Errors
    /// There is no PostgreSQL on this machine, or it does not start; its log is part of the message.
    pub fn start(settings: Settings) -> Result<Cluster, Error> {
        let (binaries, account) = (Binaries::find()?, Account::choose()?);
        let mut keeper = keeper(&binaries, account)?;
        template::fill(&mut keeper, &binaries, account)?;
        let password = random::word()?;
        let mut cluster =
            Cluster { keeper: Mutex::new(keeper), binaries, account, settings, port: 0, password };
        cluster.start_on_a_free_port()?;
        let change = format!("ALTER ROLE postgres PASSWORD '{}'", cluster.password);
        run_sql(&cluster.socket_url(), &[&change])?;
        Ok(cluster)
    }

    /// A server that follows this one. It answers reads, and writes once it is promoted.
    ///
    /// # Errors
    /// This server is not running, or the other does not start.
    pub fn standby(&self) -> Result<Cluster, Error> {
        let mut keeper = keeper(&self.binaries, self.account)?;
        keeper.run(&format!(
            "{} --dbname={} --pgdata=data --wal-method=stream --checkpoint=fast --write-recovery-conf --no-sync",
            quote(self.binaries.program("pg_basebackup")),
            quote(self.socket_url()),
        ))?;
        let mut standby = Cluster {
            keeper: Mutex::new(keeper),
            binaries: self.binaries.clone(),
            account: self.account,
            settings: self.settings.clone(),
            port: 0,
            password: self.password.clone(),
        };
        standby.start_on_a_free_port()?;
        Ok(standby)
    }

    fn start_on_a_free_port(&mut self) -> Result<(), Error> {
        let (original, version) = (self.read_configuration()?, self.binaries.version()?);
        let mut tries = 0;
        loop {
            tries += 1;
            self.port = port::free()?;
            let lines = {
                let keeper = self.keeper();
                self.settings.lines(self.port, keeper.folder(), &version)
            };
            self.keeper().write("data/postgresql.conf", &(original.clone() + "\n" + &lines))?;
            match self.start_again() {
                Err(_) if tries < TRIES && self.log_tail().contains("Address already in use") => {}
                result => return result,
            }
        }
    }

    fn read_configuration(&self) -> Result<String, Error> {
        let path = self.keeper().folder().join("data/postgresql.conf");
        fs::read_to_string(&path).map_err(|error| Error::doing(path.display(), error))
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, mode: &str) -> Result<(), Error> {
        self.run(&stop_line(&self.binaries, mode))
    }

    fn run(&self, line: &str) -> Result<(), Error> {
        let result = self.keeper().run(line);
        result.map_err(|error| Error::new(format!("{error}\n{}", self.log_tail())))
    }

    /// The address of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// The address of another database.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        with_database(&self.url(), database)
    }

    fn socket_url(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.keeper().folder().display(), self.port)
    }

    /// The port on 127.0.0.1; it stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process of the server, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let path = self.keeper().folder().join("data/postmaster.pid");
        fs::read_to_string(path).ok()?.lines().next()?.trim().parse().ok()
    }

    /// As if it crashed: connections break, nothing is written any more, the next start recovers.
    ///
    /// # Errors
    /// It was not running.
    pub fn stop_immediate(&self) -> Result<(), Error> {
        self.stop("immediate")
    }

    /// In order: what runs is rolled back, everything else is on disk.
    ///
    /// # Errors
    /// It was not running.
    pub fn stop_fast(&self) -> Result<(), Error> {
        self.stop("fast")
    }

    /// On the same port, with what was there.
    ///
    /// # Errors
    /// It runs already, or its port has been taken by another process.
    pub fn start_again(&self) -> Result<(), Error> {
        let (postgres, ready) = (self.binaries.program("postgres"), self.binaries.program("pg_isready"));
        // The server is the keeper's own child, so that the keeper can tell its end and collects it.
        self.run(&format!(
            "{} -D data >>{LOG} 2>&1 & pid=$!; tries=0; \
             until {} --quiet --host=\"$PWD\" --port={}; do \
             tries=$((tries + 1)); \
             if [ $tries -ge 1200 ] || ! kill -0 $pid; then tries=failed; break; fi; \
             sleep 0.05; done; [ $tries != failed ]",
            quote(postgres),
            quote(ready),
            self.port
        ))
    }

    /// A crash and what follows.
    ///
    /// # Errors
    /// It was not running, or does not start.
    pub fn restart_immediate(&self) -> Result<(), Error> {
        self.stop_immediate()?;
        self.start_again()
    }

    /// Makes a standby a server that writes.
    ///
    /// # Errors
    /// It is no standby, or not running.
    pub fn promote(&self) -> Result<(), Error> {
        let control = quote(self.binaries.program("pg_ctl"));
        self.run(&format!("{control} promote --silent --wait --pgdata=data"))
    }

    /// The end of the server's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.keeper().tail(LOG)
    }
}

fn keeper(binaries: &Binaries, account: Account) -> Result<Keeper, Error> {
    Keeper::start(account, &stop_line(binaries, "immediate"))
}

fn stop_line(binaries: &Binaries, mode: &str) -> String {
    let control = quote(binaries.program("pg_ctl"));
    format!("{control} stop --mode={mode} --silent --wait --pgdata=data && {{ wait $pid || true; }}")
}
