//! Records of the registry on their way in.

use ff_core::change::Changes;
use rusqlite::{ToSql, params};

use super::Apply;
use crate::sql::write;

impl Apply<'_> {
    pub(super) fn registry(&mut self, partition: i64, changes: &Changes) -> rusqlite::Result<()> {
        for (key, record) in &changes.registry {
            let (kind, id) = (key.kind.word(), &*key.id);
            match record {
                Some(record) => {
                    let body = record.body();
                    let body = body.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
                    run!(self, put_record, params![partition, kind, id, body])?
                }
                None => run!(self, delete_record, params![partition, kind, id])?,
            };
        }
        Ok(())
    }
}
