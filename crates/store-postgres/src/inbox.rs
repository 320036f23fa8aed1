//! Rows of another store's inbox.

use ff_core::inbox::Posted;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::columns::Param;
use crate::records::Read;

/// Writes rows under numbers of their own, in the order given.
pub(crate) async fn post(client: &Client, partitions: u16, rows: &[Posted]) -> Read<()> {
    let partition: Vec<i32> = rows.iter().map(|it| i32::from(it.partition(partitions).0)).collect();
    let id: Vec<Option<Uuid>> = rows.iter().map(|it| it.id.map(|id| id.0)).collect();
    let posted_at: Vec<i64> = rows.iter().map(|it| it.posted_at).collect();
    let kind: Vec<&str> = rows.iter().map(|it| it.kind.as_str()).collect();
    let texts = |text: fn(&Posted) -> &Option<String>| -> Vec<Option<&str>> {
        rows.iter().map(|it| text(it).as_deref()).collect()
    };
    let (namespace, lane) = (texts(|it| &it.namespace), texts(|it| &it.lane));
    let (key, options) = (texts(|it| &it.key), texts(|it| &it.options));
    let content_type: Vec<&str> = rows.iter().map(|it| &*it.input.content_type).collect();
    let input: Vec<&[u8]> = rows.iter().map(|it| &it.input.bytes[..]).collect();
    let params: [Param<'_>; 10] = [
        (&partition, Type::INT4_ARRAY),
        (&id, Type::UUID_ARRAY),
        (&posted_at, Type::INT8_ARRAY),
        (&kind, Type::TEXT_ARRAY),
        (&namespace, Type::TEXT_ARRAY),
        (&lane, Type::TEXT_ARRAY),
        (&key, Type::TEXT_ARRAY),
        (&options, Type::TEXT_ARRAY),
        (&content_type, Type::TEXT_ARRAY),
        (&input, Type::BYTEA_ARRAY),
    ];
    client.query_typed(include_str!("../sql/post.sql"), &params).await?;
    Ok(())
}
