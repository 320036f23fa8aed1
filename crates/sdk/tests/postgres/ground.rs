//! A database of one's own, and what its log says.

use std::collections::BTreeMap;

use ff_engine::subscription::Item;
use ff_scratch::{Database, run_sql, test_postgres};
use flowfabric::{Event, EventFilter, ExecutionId, Fabric, Start, connect};

pub struct Ground {
    database: Database,
}

impl Ground {
    pub fn new() -> Ground {
        Ground { database: Database::create(&test_postgres().unwrap(), None).unwrap() }
    }

    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Another server.
    pub async fn fabric(&self) -> Fabric {
        connect(&format!("{}?partitions=8", self.database.url())).await.unwrap()
    }

    pub async fn fabrics(&self, count: usize) -> Vec<Fabric> {
        let mut fabrics = Vec::new();
        for _ in 0..count {
            fabrics.push(self.fabric().await);
        }
        fabrics
    }

    /// What an application does in the database.
    pub async fn sql(&self, statement: &str) -> String {
        let (url, statement) = (self.database.url(), statement.to_owned());
        tokio::task::spawn_blocking(move || run_sql(&url, &[&statement]).unwrap()).await.unwrap()
    }
}

/// Everything in the log when this is called. Each partition is read up to its own end, because servers go on.
pub async fn log(fabric: &Fabric) -> Vec<Event> {
    let (_, statuses) = fabric.engine().unwrap().store().status().await.unwrap();
    let mut next = vec![1; statuses.len()];
    let mut events =
        fabric.engine().unwrap().subscribe(EventFilter::default(), Start::Beginning).await.unwrap();
    let mut log = Vec::new();
    while statuses.iter().any(|it| next[it.partition.index()] < it.next_event) {
        let Item::Event { event, partition, .. } = events.next().await else { continue };
        assert_eq!(event.number, next[partition.index()], "the log of partition {partition} has a gap");
        next[partition.index()] += 1;
        log.push(*event);
    }
    log
}

/// How often each has ended.
pub fn endings(log: &[Event]) -> BTreeMap<ExecutionId, usize> {
    let mut endings = BTreeMap::new();
    for event in log.iter().filter(|event| event.fact.ends()) {
        *endings.entry(event.execution.unwrap()).or_default() += 1;
    }
    endings
}
