//! Where every partition stands. Read many times a second, so the database tells only what has changed.

use ff_core::{CommitId, Ms, PartitionId};
use ff_store::{Status, Version};
use tokio_postgres::Row;

use crate::records::{Read, class, column, count, lane};

pub(crate) const STATUS: &str = "SELECT * FROM flowfabric.status_1($1)";

/// What was found last, in the order of the partitions.
#[derive(Clone, Debug)]
pub(crate) struct Seen(Vec<Status>);

impl Seen {
    pub(crate) fn nothing(partitions: u16) -> Seen {
        let status = |partition| Status {
            partition: PartitionId(partition),
            version: Version::NONE,
            next_event: 1,
            next_due: None,
            ready: Vec::new(),
            inbox: false,
        };
        Seen((0..partitions).map(status).collect())
    }

    /// The newest version of each partition that is known; nothing where there is none.
    pub(crate) fn known(&self) -> Vec<Option<i64>> {
        let number = |status: &Status| i64::try_from(status.version.number).ok().filter(|it| *it > 0);
        self.0.iter().map(number).collect()
    }

    /// Takes in what has changed and answers all.
    pub(crate) fn update(&mut self, rows: &[Row]) -> Read<(Ms, Vec<Status>)> {
        let mut now = 0;
        self.0.iter_mut().for_each(|status| status.inbox = false);
        for row in rows {
            let partition: Option<i32> = column(row, 1)?;
            let found = partition.and_then(|it| usize::try_from(it).ok()).and_then(|it| self.0.get_mut(it));
            let (tag, Some(status)) = (column::<&str>(row, 0)?, found) else {
                now = column(row, 3)?;
                continue;
            };
            match tag {
                "head" => {
                    let id: Option<uuid::Uuid> = column(row, 2)?;
                    let version = Version { number: count(row, 3)?, id: CommitId(id.unwrap_or_default()) };
                    let due: Option<Ms> = column(row, 5)?;
                    status.version = version;
                    status.next_event = count(row, 4)?.max(1);
                    status.next_due = due.filter(|due| *due < Ms::MAX);
                    status.ready.clear();
                }
                "ready" => {
                    let (lane_name, class_name) = (lane(column(row, 6)?)?, class(column(row, 7)?)?);
                    status.ready.push((lane_name, class_name, count(row, 3)?));
                }
                _ => status.inbox = true,
            }
        }
        Ok((now, self.0.clone()))
    }
}
