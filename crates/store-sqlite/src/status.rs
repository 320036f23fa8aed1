//! Where every partition stands. Read many times a second, so it is worked out again only when the file has
//! changed.

use ff_core::PartitionId;
use ff_store::Status;

use crate::reader::Reads;
use crate::records::Read;

/// What was found when the file was at this version.
#[derive(Debug)]
pub(crate) struct Seen {
    data_version: i64,
    status: Vec<Status>,
}

impl Reads<'_> {
    pub(crate) fn status(&mut self, partitions: u16) -> Read<Vec<Status>> {
        // SQLite changes this number whenever another connection, of any process, has committed; the writer's
        // connection is another one too.
        let data_version: i64 = self.data_version.query_row([], |row| row.get(0))?;
        if let Some(seen) = &self.seen
            && seen.data_version == data_version
        {
            return Ok(seen.status.clone());
        }
        let status = self.at_one_version(|reads| {
            (0..partitions).map(|partition| reads.status_of(PartitionId(partition))).collect::<Read<Vec<_>>>()
        })?;
        // Read before the answer: if the file changed in between, the next call looks again.
        self.seen = Some(Seen { data_version, status: status.clone() });
        Ok(status)
    }

    fn status_of(&mut self, partition: PartitionId) -> Read<Status> {
        let number = i64::from(partition.0);
        let (version, header) = self.head(number)?;
        Ok(Status {
            partition,
            version,
            next_event: header.next_event,
            next_due: self.sql.next_due.query_row([number], |row| row.get(0))?,
            ready: self.ready_counts(number)?,
            inbox: self.sql.has_posted.query_row([number], |row| row.get(0))?,
        })
    }
}
