//! Whether PostgreSQL has read a whole table that it should only look things up in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ff_scratch::run_sql;

const HOT: [&str; 10] = [
    "executions",
    "ready",
    "agenda",
    "leases",
    "ended",
    "commits",
    "payloads",
    "events",
    "counts",
    "ready_counts",
];

/// A connection hands its figures in when it ends.
const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                      AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
const PATIENCE: Duration = Duration::from_secs(10);

/// How often each of the hot tables has been read whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scans(BTreeMap<String, u64>);

impl Scans {
    /// Waits until nobody else is connected, so that the figures are complete.
    pub async fn read(url: &str) -> anyhow::Result<Scans> {
        let started = Instant::now();
        while run_sql(url, &[OTHERS])? != "0" {
            anyhow::ensure!(started.elapsed() < PATIENCE, "somebody else is connected to the database");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let read = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'flowfabric'";
        let mut scans = Scans::parse(&run_sql(url, &[read])?);
        scans.0.retain(|table, _| HOT.contains(&table.as_str()));
        anyhow::ensure!(scans.0.len() == HOT.len(), "the hot tables are {HOT:?}, but there are {scans:?}");
        Ok(scans)
    }

    fn parse(text: &str) -> Scans {
        let row = |line: &str| {
            let (table, scans) = line.split_once('|')?;
            Some((table.to_owned(), scans.parse().ok()?))
        };
        Scans(text.lines().filter_map(row).collect())
    }

    /// How many more there are later, table by table.
    pub fn until(&self, later: &Scans) -> Vec<(String, u64)> {
        let grown = |(table, now): (&String, &u64)| {
            let before = self.0.get(table).copied().unwrap_or(0);
            (*now > before).then(|| (table.clone(), now - before))
        };
        later.0.iter().filter_map(grown).collect()
    }
}

/// Lets the planner believe that every table is empty, which is when its guesses are worst.
pub fn analyze_while_empty(url: &str) -> anyhow::Result<()> {
    run_sql(url, &["ANALYZE"])?;
    Ok(())
}

/// How many tables are being vacuumed.
const VACUUMS: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'";
const REST: Duration = Duration::from_secs(120);

/// Lets the database come to rest: what filling it has left to be written is written, and vacuum has come by.
pub async fn come_to_rest(url: &str) -> anyhow::Result<()> {
    run_sql(url, &["CHECKPOINT"])?;
    let started = Instant::now();
    while run_sql(url, &[VACUUMS])? != "0" {
        anyhow::ensure!(started.elapsed() < REST, "the database does not come to rest");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_were_read_again_are_named() {
        let before = Scans::parse("ready|3\nagenda|1\n");
        let after = Scans::parse("ready|5\nagenda|1\nleases|2\n");
        assert_eq!(before.until(&after), [("leases".to_owned(), 2), ("ready".to_owned(), 2)]);
        assert_eq!(after.until(&after), []);
    }
}
