//! The keys that a commit changed, packed into three columns: ids of executions end to end, those
//! that have ended apart from the others, and the rest as JSON. The
//! function `changes_1` reads them back.

use ff_core::Ms;
use ff_core::change::Changes;
use ff_core::key::Key;

/// How long commits are remembered at least, in time and in number.
pub(crate) const KEPT_MS: Ms = 3_600_000;
pub(crate) const KEPT_VERSIONS: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub(crate) executions: Option<Vec<u8>>,
    /// Those of which others need to know no more than that they have ended.
    pub(crate) ended: Option<Vec<u8>>,
    pub(crate) others: Option<String>,
}

pub(crate) fn pack(changes: &Changes) -> Result<Packed, serde_json::Error> {
    let (mut executions, mut ended) = (Vec::with_capacity(16 * changes.executions.len()), Vec::new());
    for change in &changes.executions {
        let list = if change.has_ended() { &mut ended } else { &mut executions };
        list.extend_from_slice(change.id().0.as_bytes());
    }
    let others: Vec<Key> =
        changes.keys().into_iter().filter(|key| !matches!(key, Key::Execution(_))).collect();
    Ok(Packed {
        executions: Some(executions).filter(|it| !it.is_empty()),
        ended: Some(ended).filter(|it| !it.is_empty()),
        others: if others.is_empty() { None } else { Some(serde_json::to_string(&others)?) },
    })
}
