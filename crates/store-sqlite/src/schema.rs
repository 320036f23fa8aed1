//! The schema and its numbers: which application a file belongs to, how new it is, and how it gets newer.

use std::path::Path;

use ff_store::StoreError;
use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

/// `FFab`: marks a file as ours.
pub(crate) const APPLICATION_ID: i64 = 0x4646_6162;

/// In order; the position from 1 is the schema's number. A released migration never changes.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("../sql/migrations/0001_initial.sql"),
    include_str!("../sql/migrations/0002_inbox.sql"),
    include_str!("../sql/migrations/0003_flows.sql"),
    include_str!("../sql/migrations/0004_mail.sql"),
    include_str!("../sql/migrations/0005_registry.sql"),
    include_str!("../sql/migrations/0006_parcels.sql"),
];

/// The number of the schema this program knows.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: Uuid,
    pub(crate) partitions: u16,
}

/// Refuses a file that belongs to somebody else or to a newer program, before anything is written to it.
pub(crate) fn check_owner(file: &Path, conn: &Connection) -> Result<(), StoreError> {
    let explain = |error| crate::error::explain_opening(file, &error);
    let number =
        |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(explain);
    let tables: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(explain)?;
    let file = file.display();
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application != APPLICATION_ID && (tables > 0 || application != 0) {
        return Err(StoreError::Unusable(format!(
            "{file} is a database of another application: give the path of a FlowFabric file or of a file that \
             does not exist yet"
        )));
    }
    if version > newest() {
        return Err(StoreError::Unusable(format!(
            "{file} has schema {version}, and this program knows schemas up to {}: use a newer flowfabric",
            newest()
        )));
    }
    Ok(())
}

/// Brings the schema up to date, and makes an empty file a store of so many partitions.
pub(crate) fn migrate(conn: &mut Connection, partitions: u16) -> rusqlite::Result<()> {
    let version =
        |conn: &Connection| conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    if version(conn)? == newest() {
        return Ok(());
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    // Another process may have done it while this one waited.
    let found = usize::try_from(version(&transaction)?).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(found) {
        transaction.execute_batch(migration)?;
    }
    if found == 0 {
        let insert = "INSERT INTO store (one, id, partitions) VALUES (1, randomblob(16), ?1)";
        transaction.execute(insert, params![partitions])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    transaction.pragma_update(None, "user_version", newest())?;
    transaction.commit()
}

pub(crate) fn identity(conn: &Connection) -> rusqlite::Result<Identity> {
    conn.query_row("SELECT id, partitions FROM store", [], |row| {
        Ok(Identity { id: Uuid::from_bytes(row.get(0)?), partitions: row.get(1)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::agenda::Subject;
    use ff_core::lane::LaneMode;
    use ff_core::payload::Slot;
    use ff_core::state::{PublicState, Reason};
    use ff_core::step::StepKind;
    use ff_core::stream::FrameMode;
    use ff_core::worker::WorkerMode;

    fn words_checked(table: &str, column: &str) -> Vec<String> {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, 1).unwrap();
        let sql: String = conn
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
            .unwrap();
        let mark = format!("{column} = '");
        let mut words: Vec<String> =
            sql.split(&mark).skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned()).collect();
        words.sort();
        words
    }

    #[test]
    fn the_database_accepts_exactly_the_words_of_the_core() {
        let states = PublicState::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        let reasons = Reason::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        let slots = Slot::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        let lanes = LaneMode::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        let workers = WorkerMode::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        let steps = StepKind::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        let frames = FrameMode::ALL.iter().map(|it| it.word()).collect::<Vec<_>>();
        for (table, column, mut words) in [
            ("executions", "state", states),
            ("executions", "reason", reasons),
            ("agenda", "kind", Subject::KINDS.to_vec()),
            ("payloads", "slot", slots),
            ("steps", "kind", steps),
            ("frames", "mode", frames),
            ("lanes", "mode", lanes),
            ("workers", "mode", workers),
        ] {
            words.sort_unstable();
            assert_eq!(words_checked(table, column), words, "{table}.{column}");
        }
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, 3).unwrap();
        let first = identity(&conn).unwrap();
        migrate(&mut conn, 8).unwrap();
        assert_eq!(identity(&conn).unwrap(), first);
        assert_eq!(first.partitions, 3);
    }

    #[test]
    fn a_file_of_any_earlier_schema_is_brought_up_to_date() {
        let schema = |conn: &Connection| -> Vec<String> {
            let mut rows =
                conn.prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut fresh = Connection::open_in_memory().unwrap();
        migrate(&mut fresh, 3).unwrap();
        for version in 1..MIGRATIONS.len() {
            let mut conn = Connection::open_in_memory().unwrap();
            MIGRATIONS[..version].iter().for_each(|migration| conn.execute_batch(migration).unwrap());
            conn.execute("INSERT INTO store (one, id, partitions) VALUES (1, zeroblob(16), 3)", []).unwrap();
            conn.pragma_update(None, "user_version", version as i64).unwrap();
            migrate(&mut conn, 8).unwrap();
            assert_eq!(schema(&conn), schema(&fresh), "from schema {version}");
            assert_eq!(identity(&conn).unwrap(), Identity { id: Uuid::nil(), partitions: 3 });
        }
    }

    #[test]
    fn views_show_ids_as_people_write_them() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, 1).unwrap();
        let id = Uuid::from_u128(0x0197_f3a2_6f3e_7c41_9b1d_0242_ac12_0002);
        conn.execute("INSERT INTO agenda VALUES (0, 5, 'timer', ?1, NULL)", params![id.as_bytes()]).unwrap();
        conn.execute("INSERT INTO agenda VALUES (0, 6, 'deliver', '3/1', '{}')", []).unwrap();
        let mut rows = conn.prepare("SELECT subject FROM agenda_view ORDER BY due").unwrap();
        let subjects: Vec<String> =
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(subjects, [id.to_string(), "3/1".to_owned()]);
    }
}
