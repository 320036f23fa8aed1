//! The limits on what people may send. All can be configured; the defaults are what the documentation says.

use serde::{Deserialize, Serialize};

use crate::Ms;

const DAY_MS: Ms = 24 * 60 * 60 * 1000;

/// The limits one store is served with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub input_bytes_max: usize,
    pub result_bytes_max: usize,
    pub tags_max: usize,
    pub tag_value_bytes_max: usize,
    pub capabilities_max: usize,
    pub idempotency_key_bytes_max: usize,
    pub error_bytes_max: usize,
    pub progress_message_bytes_max: usize,
    pub batch_items_max: usize,
    /// How many nodes, and how many edges, one call may add to a flow.
    pub flow_items_max: usize,
    /// How many edges one commit follows from what has ended or been decided; the agenda follows the rest.
    pub cascade_edges_max: usize,
    /// What one signal may carry.
    pub signal_bytes_max: usize,
    /// How many signals one execution keeps.
    pub signals_max: usize,
    /// How many signals one waitpoint takes from holders of its token.
    pub token_signals_max: usize,
    /// How many waitpoints of one execution may be open at once.
    pub waitpoints_max: usize,
    /// How many child executions of one execution may run at once.
    pub children_max: usize,
    /// How many steps one execution records.
    pub steps_max: usize,
    pub frame_bytes_max: usize,
    /// How many frames one call may append, and how many of one attempt are kept.
    pub frames_max: usize,
    pub frames_kept_max: u64,
    /// How large a summary document may grow.
    pub summary_bytes_max: usize,
    /// How long frames are kept, and how long best-effort ones.
    pub frame_retention_ms: Ms,
    pub best_effort_ms: Ms,
    /// How many access tokens, and how many webhooks, there may be.
    pub tokens_max: usize,
    pub webhooks_max: usize,
    /// How many bulk operations may run at once.
    pub bulk_running_max: usize,
    /// How far ahead a delay, a deadline or a timeout may reach.
    pub horizon_ms_max: Ms,
    /// How long an idempotency key returns the first execution.
    pub idempotency_window_ms: Ms,
    /// How long an ended execution is kept unless its lane says otherwise.
    pub retention_ms: Ms,
    /// How long events are kept.
    pub event_retention_ms: Ms,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            input_bytes_max: 4 << 20,
            result_bytes_max: 4 << 20,
            tags_max: 64,
            tag_value_bytes_max: 256,
            capabilities_max: 32,
            idempotency_key_bytes_max: 256,
            error_bytes_max: 16 << 10,
            progress_message_bytes_max: 1 << 10,
            batch_items_max: 10_000,
            flow_items_max: 1_000,
            cascade_edges_max: 1_000,
            signal_bytes_max: 64 << 10,
            signals_max: 10_000,
            token_signals_max: 1_000,
            waitpoints_max: 1_000,
            children_max: 1_000,
            steps_max: 10_000,
            frame_bytes_max: 64 << 10,
            frames_max: 1_000,
            frames_kept_max: 10_000,
            summary_bytes_max: 256 << 10,
            frame_retention_ms: 7 * DAY_MS,
            best_effort_ms: 60_000,
            tokens_max: 10_000,
            webhooks_max: 256,
            bulk_running_max: 16,
            horizon_ms_max: 10 * 366 * DAY_MS,
            idempotency_window_ms: DAY_MS,
            retention_ms: 7 * DAY_MS,
            event_retention_ms: 30 * DAY_MS,
        }
    }
}
