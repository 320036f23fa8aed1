//! The schema and its numbers: how new it is, who may use it, and how it gets newer.

use ff_store::StoreError;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};
use uuid::Uuid;

use crate::error::explain;
use crate::options::{Options, PARTITIONS};

/// The oldest PostgreSQL that has what the functions use.
const OLDEST_SERVER: i32 = 140_000;

/// One of many who start at once migrates; the others wait for it. Any number that nobody else uses.
const LOCK: i64 = 0x666c_6f77_6661_6272;

/// A step of the schema. A released one never changes.
pub(crate) struct Migration {
    pub(crate) name: &'static str,
    /// The smallest number of migrations that a program must know to go on working after this one. A
    /// migration that only adds keeps the number of the one before.
    pub(crate) oldest: i32,
    pub(crate) scripts: &'static [&'static str],
}

/// In order; the position from 1 is the schema's number.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { name: "initial", oldest: 1, scripts: INITIAL },
    Migration {
        name: "registry",
        oldest: 1,
        scripts: &[include_str!("../sql/migrations/0002/1_registry.sql")],
    },
    Migration {
        name: "parcels",
        oldest: 1,
        scripts: &[include_str!("../sql/migrations/0003/1_parcels.sql")],
    },
    Migration { name: "newest", oldest: 1, scripts: &[include_str!("../sql/migrations/0004/1_newest.sql")] },
];

const INITIAL: &[&str] = &[
    include_str!("../sql/migrations/0001/0_clock.sql"),
    include_str!("../sql/migrations/0001/1_tables.sql"),
    include_str!("../sql/migrations/0001/1_flows.sql"),
    include_str!("../sql/migrations/0001/1_mail.sql"),
    include_str!("../sql/migrations/0001/2_commit.sql"),
    include_str!("../sql/migrations/0001/2_flows.sql"),
    include_str!("../sql/migrations/0001/2_mail.sql"),
    include_str!("../sql/migrations/0001/3_load.sql"),
    include_str!("../sql/migrations/0001/3_flows.sql"),
    include_str!("../sql/migrations/0001/3_mail.sql"),
    include_str!("../sql/migrations/0001/4_reads.sql"),
    include_str!("../sql/migrations/0001/4_flows.sql"),
    include_str!("../sql/migrations/0001/4_mail.sql"),
    include_str!("../sql/migrations/0001/5_servers.sql"),
    include_str!("../sql/migrations/0001/6_submit.sql"),
    include_str!("../sql/migrations/0001/7_views.sql"),
];

const LEDGER: &str = "CREATE SCHEMA IF NOT EXISTS flowfabric;
CREATE TABLE IF NOT EXISTS flowfabric.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    oldest     integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);";

/// The number of the schema this program knows.
pub fn newest_schema() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// What a migration did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The number of the schema before, 0 if there was none, and after.
    pub from: i32,
    pub to: i32,
}

/// What a database says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: Uuid,
    pub(crate) partitions: u16,
}

/// Refuses a server that cannot serve, before anything is written.
pub(crate) async fn check_server(place: &str, client: &Client) -> Result<(), StoreError> {
    let asked = "SELECT current_setting('server_version_num')::integer, current_setting('server_version'), \
                 pg_is_in_recovery()";
    let row = client.query_typed_one(asked, &[]).await.map_err(|error| explain(place, &error))?;
    let (number, version, standby): (i32, String, bool) = (row.get(0), row.get(1), row.get(2));
    if number < OLDEST_SERVER {
        return Err(StoreError::Unusable(format!(
            "{place} runs PostgreSQL {version}: FlowFabric needs PostgreSQL 14 or newer"
        )));
    }
    if standby {
        return Err(StoreError::Unusable(format!(
            "{place} is a read-only standby: give the address of the primary, or of all servers with \
             target_session_attrs=read-write"
        )));
    }
    Ok(())
}

/// The number of the schema that is there, 0 if there is none.
pub(crate) async fn version(place: &str, client: &Client) -> Result<i32, StoreError> {
    let explain = |error| explain(place, &error);
    let there = "SELECT to_regclass('flowfabric.migrations') IS NOT NULL";
    if !client.query_typed_one(there, &[]).await.map_err(explain)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(number), 0) FROM flowfabric.migrations";
    Ok(client.query_typed_one(newest, &[]).await.map_err(explain)?.get(0))
}

/// Refuses a schema that is too new for this program.
pub(crate) async fn check_version(place: &str, client: &Client, found: i32) -> Result<(), StoreError> {
    let known = newest_schema();
    if found <= known {
        return Ok(());
    }
    let needed = "SELECT coalesce(max(oldest), 0) FROM flowfabric.migrations WHERE number > $1";
    let row = client.query_typed_one(needed, &[(&known, Type::INT4)]).await;
    let needed: i32 = row.map_err(|error| explain(place, &error))?.get(0);
    if needed <= known {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "{place} has schema {found}, which asks for a program that knows schema {needed}, and this one knows \
         schemas up to {known}: use a newer flowfabric"
    )))
}

/// Brings the schema up to date, and makes an empty database a store of so many partitions.
pub(crate) async fn migrate(
    place: &str,
    client: &mut Client,
    options: &Options,
) -> Result<Migrated, StoreError> {
    let found = version(place, client).await?;
    check_version(place, client, found).await?;
    if found >= newest_schema() {
        return Ok(Migrated { from: found, to: found });
    }
    let explain = |error| explain(place, &error);
    let transaction = client.transaction().await.map_err(explain)?;
    let lock = format!("SELECT pg_advisory_xact_lock({LOCK})");
    transaction.batch_execute(&lock).await.map_err(explain)?;
    transaction.batch_execute(LEDGER).await.map_err(explain)?;
    // Another process may have done it while this one waited.
    let newest = "SELECT coalesce(max(number), 0) FROM flowfabric.migrations";
    let rows = transaction.simple_query(newest).await.map_err(explain)?;
    let from = rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0).and_then(|text| text.parse::<i32>().ok()),
        _ => None,
    });
    let from = from.unwrap_or(0);
    transaction.batch_execute("SET LOCAL search_path = flowfabric, pg_temp").await.map_err(explain)?;
    for (migration, number) in MIGRATIONS.iter().zip(1..).skip(usize::try_from(from).unwrap_or(0)) {
        for script in migration.scripts {
            transaction.batch_execute(script).await.map_err(explain)?;
        }
        let insert = "INSERT INTO flowfabric.migrations (number, name, oldest) VALUES ($1, $2, $3)";
        let row: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&number, Type::INT4), (&migration.name, Type::TEXT), (&migration.oldest, Type::INT4)];
        transaction.query_typed(insert, &row).await.map_err(explain)?;
    }
    if from == 0 {
        let partitions = options.partitions.unwrap_or(PARTITIONS);
        let insert =
            format!("INSERT INTO flowfabric.store (id, partitions) VALUES (gen_random_uuid(), {partitions})");
        transaction.batch_execute(&insert).await.map_err(explain)?;
    }
    transaction.commit().await.map_err(explain)?;
    Ok(Migrated { from, to: newest_schema() })
}

pub(crate) async fn identity(place: &str, client: &Client) -> Result<Identity, StoreError> {
    let row = client.query_typed_one("SELECT id, partitions FROM flowfabric.store", &[]).await;
    let row = row.map_err(|error| explain(place, &error))?;
    Ok(Identity { id: row.get(0), partitions: u16::try_from(row.get::<_, i32>(1)).unwrap_or(u16::MAX) })
}
