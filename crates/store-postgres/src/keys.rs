//! The keys that a commit changed, packed into two columns: ids of executions end to end, the rest as JSON. The
//! function `changes_1` reads them back.

use ff_core::Ms;
use ff_core::change::Changes;
use ff_core::key::Key;

/// How long commits are remembered at least, in time and in number.
pub(crate) const KEPT_MS: Ms = 3_600_000;
pub(crate) const KEPT_VERSIONS: u64 = 1_000;

pub(crate) fn pack(changes: &Changes) -> Result<(Option<Vec<u8>>, Option<String>), serde_json::Error> {
    let mut executions = Vec::with_capacity(16 * changes.executions.len());
    let mut others = Vec::new();
    for key in changes.keys() {
        match key {
            Key::Execution(id) => executions.extend_from_slice(id.0.as_bytes()),
            other => others.push(other),
        }
    }
    let others = if others.is_empty() { None } else { Some(serde_json::to_string(&others)?) };
    Ok((Some(executions).filter(|it| !it.is_empty()), others))
}
