//! What a round stands on: a fresh store of one kind, and what it cost.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ff_scratch::{Cluster, Database, Settings, run_sql};
use ff_store::{MemoryStore, Store};
use ff_store_postgres::{Address, PostgresStore};
use ff_store_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

/// Which kind of store is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Sqlite => "sqlite",
            Kind::Postgres => "postgres",
        }
    }
}

/// What a store did, summed since it was opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    pub commits: u64,
    /// Commits that were refused because another process was first.
    pub conflicts: u64,
    pub statements: u64,
    pub rows: u64,
    pub wal_bytes: u64,
    /// Time that the server's own processes have worked, in milliseconds; none for a store in this process.
    pub server_cpu_ms: Option<u64>,
    pub batches: Vec<(u64, u64)>,
    /// How long a server in a process of its own has worked, in milliseconds, and its resident MiB.
    pub host: Option<(u64, f64)>,
}

impl Cost {
    /// Adds what another process asked of the same store; the log and the server's time are counted once, by the
    /// store's owner.
    pub fn add(&mut self, other: &Cost) {
        self.commits += other.commits;
        self.conflicts += other.conflicts;
        self.statements += other.statements;
        self.rows += other.rows;
        for (most, count) in &other.batches {
            match self.batches.iter_mut().find(|(known, _)| known == most) {
                Some((_, sum)) => *sum += count,
                None => self.batches.push((*most, *count)),
            }
        }
    }
}

/// A store, open.
#[derive(Debug)]
pub enum Ground {
    Memory(Arc<MemoryStore>),
    Sqlite {
        store: Arc<SqliteStore>,
        file: PathBuf,
    },
    Postgres {
        store: Arc<PostgresStore>,
        database: Arc<Database>,
    },
    /// A database that another process looks after.
    Lent {
        store: Arc<PostgresStore>,
        url: String,
    },
}

impl Ground {
    /// A fresh store; one in a file lies in the folder, one in a database on a private server with all its
    /// flushes, or on the server of `url`.
    pub async fn make(kind: Kind, folder: &Path, url: Option<&str>) -> anyhow::Result<Ground> {
        Ok(match kind {
            Kind::Memory => Ground::Memory(Arc::new(MemoryStore::new(1))),
            Kind::Sqlite => {
                let file = folder.join("bench.db");
                Ground::Sqlite { store: Arc::new(SqliteStore::open(&file, Default::default())?), file }
            }
            Kind::Postgres => {
                let admin = match url {
                    Some(url) => url.to_owned(),
                    None => server()?.url(),
                };
                let database = Arc::new(Database::create(&admin, None)?);
                let store = Arc::new(open_postgres(&database.url()).await?);
                Ground::Postgres { store, database }
            }
        })
    }

    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Ground::Memory(store) => store.clone(),
            Ground::Sqlite { store, .. } => store.clone(),
            Ground::Postgres { store, .. } | Ground::Lent { store, .. } => store.clone(),
        }
    }

    /// Another handle on the same store, when this one has been closed.
    pub async fn again(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Ground::Memory(store) => Arc::new(store.another()),
            Ground::Sqlite { file, .. } => Arc::new(SqliteStore::open(file, Default::default())?),
            Ground::Postgres { database, .. } => Arc::new(open_postgres(&database.url()).await?),
            Ground::Lent { url, .. } => Arc::new(open_postgres(url).await?),
        })
    }

    pub fn cost(&self) -> anyhow::Result<Option<Cost>> {
        Ok(match self {
            Ground::Memory(_) => None,
            Ground::Lent { store, .. } => Some(asked_of(store)),
            Ground::Sqlite { store, .. } => {
                let stats = store.stats();
                Some(Cost {
                    commits: stats.commits,
                    conflicts: 0,
                    statements: stats.statements,
                    rows: stats.rows,
                    wal_bytes: stats.wal_bytes,
                    server_cpu_ms: None,
                    batches: stats.batches,
                    host: None,
                })
            }
            Ground::Postgres { store, database } => {
                let lsn = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
                let wal_bytes = run_sql(&database.url(), &[lsn])?.trim().parse()?;
                Some(Cost {
                    wal_bytes,
                    server_cpu_ms: SERVER
                        .get()
                        .and_then(Cluster::pid)
                        .and_then(crate::figures::cpu_ms_of_family),
                    ..asked_of(store)
                })
            }
        })
    }

    /// The name under which another process finds the store; none if it cannot.
    pub fn place(&self) -> Option<String> {
        match self {
            Ground::Memory(_) => None,
            Ground::Sqlite { file, .. } => Some(file.display().to_string()),
            Ground::Postgres { database, .. } => Some(database.url()),
            Ground::Lent { url, .. } => Some(url.clone()),
        }
    }

    /// Opens what another process has filled.
    pub async fn open(place: &str) -> anyhow::Result<Ground> {
        if place.starts_with("postgres") {
            let store = Arc::new(open_postgres(place).await?);
            return Ok(Ground::Lent { store, url: place.to_owned() });
        }
        let store = Arc::new(SqliteStore::open(place, Default::default())?);
        Ok(Ground::Sqlite { store, file: place.into() })
    }
}

/// What this process has asked of a server.
fn asked_of(store: &PostgresStore) -> Cost {
    let stats = store.stats();
    Cost {
        commits: stats.commits,
        conflicts: stats.conflicts,
        statements: stats.calls + stats.reads,
        rows: stats.rows,
        wal_bytes: 0,
        server_cpu_ms: None,
        batches: stats.batches,
        host: None,
    }
}

pub async fn open_postgres(url: &str) -> anyhow::Result<PostgresStore> {
    Ok(PostgresStore::open(Address::parse(url)?, Default::default()).await?)
}

static SERVER: OnceLock<Cluster> = OnceLock::new();

/// The private server of this process, with all its flushes.
pub fn server() -> anyhow::Result<&'static Cluster> {
    if SERVER.get().is_none() {
        let _ = SERVER.set(Cluster::start(Settings::durable())?);
    }
    SERVER.get().ok_or_else(|| anyhow::anyhow!("there is no server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_processes_are_summed_by_size_of_batch() {
        let one = Cost { commits: 2, conflicts: 1, batches: vec![(1, 2), (4, 1)], ..Cost::default() };
        let mut sum = Cost { wal_bytes: 7, batches: vec![(4, 5)], ..Cost::default() };
        sum.add(&one);
        sum.add(&one);
        assert_eq!((sum.commits, sum.conflicts, sum.wal_bytes), (4, 2, 7));
        assert_eq!(sum.batches, [(4, 7), (1, 4)]);
    }
}
