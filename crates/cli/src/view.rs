//! How things are shown: tables for people, JSON for programs.

use std::io::Write;

use comfy_table::{ContentArrangement, Row, Table, presets};
use ff_core::duration;
use ff_core::execution::State;
use ff_core::suspension::Suspension;
use flowfabric::{Attempt, Execution, Ms, Payload, TaskError, WaitpointId};
use serde_json::{Value, json};

use crate::problem::Problem;

/// How much of a payload or a message is shown to people.
const SHOWN_MAX: usize = 2_000;

// ---- output ----------------------------------------------------------------------------------------------

/// Writes a line to stdout. A reader that has gone away ends the command quietly.
pub fn line(text: &str) -> Result<(), Problem> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// One JSON document, indented, as people read it too.
pub fn document(value: &Value) -> Result<(), Problem> {
    line(&format!("{value:#}"))
}

/// One line of a stream of JSON documents.
pub fn json_line(value: &Value) -> Result<(), Problem> {
    line(&value.to_string())
}

pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(Row::from(header.iter().map(|word| word.to_uppercase()).collect::<Vec<_>>()));
    table
}

pub fn print_table(table: &Table) -> Result<(), Problem> {
    // Cells are padded on the left; the first column starts at the edge.
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().chars().skip(1).collect()).collect();
    line(&lines.join("\n"))
}

/// `name: value` lines, aligned.
pub fn print_fields(fields: &[(&str, String)]) -> Result<(), Problem> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    line(&lines.join("\n"))
}

// ---- values ----------------------------------------------------------------------------------------------

/// A time in UTC, RFC 3339.
pub fn time(at: Ms) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |time| format!("{time:.3}"))
}

/// A time and how far away it is.
pub fn time_and_age(at: Ms, now: Ms) -> String {
    format!("{} ({})", time(at), age(at, now))
}

pub fn age(at: Ms, now: Ms) -> String {
    match now - at {
        ago if ago >= 0 => format!("{} ago", short(ago)),
        ahead => format!("in {}", short(-ahead)),
    }
}

/// A length of time in the two largest units that say something.
pub fn short(ms: Ms) -> String {
    match ms {
        ..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{}s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..86_400_000 => format!("{}h{}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("{}d{}h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}

/// Writes milliseconds since 1970 inside a text as times that people can read.
pub fn readable_times(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let (digits, after) = from.split_at(from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len()));
        let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '-')
            || after.starts_with(|c: char| c.is_alphanumeric() || c == '-');
        shown.push_str(before);
        // Thirteen digits are the years 2001 to 2286.
        match digits.parse().ok().filter(|_| digits.len() == 13 && !is_word) {
            Some(at) => shown.push_str(&time(at)),
            None => shown.push_str(digits),
        }
        rest = after;
    }
    shown + rest
}

/// Cut to what fits a screen, and on one line.
pub fn cut(text: &str, max: usize) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match flat.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}

fn error_text(error: &TaskError) -> String {
    let code = error.code.as_deref().map_or_else(String::new, |code| format!("{code}: "));
    format!("{code}{}", error.message)
}

/// A payload as JSON if it is that, and otherwise as text or by its size.
pub fn payload_value(payload: &Payload) -> Value {
    if payload.content_type.contains("json")
        && let Ok(value) = serde_json::from_slice(&payload.bytes)
    {
        return value;
    }
    match std::str::from_utf8(&payload.bytes) {
        Ok(text) => json!({ "content_type": &*payload.content_type, "text": text }),
        Err(_) => json!({ "content_type": &*payload.content_type, "bytes": payload.len() }),
    }
}

pub fn payload_text(payload: &Payload) -> String {
    cut(&payload_value(payload).to_string(), SHOWN_MAX)
}

// ---- executions ------------------------------------------------------------------------------------------

fn error_value(error: &TaskError) -> Value {
    json!({ "code": error.code, "message": error.message, "class": error.class })
}

/// An execution as programs read it. Absent values are null, so that every document has the same keys.
pub fn execution_value(execution: &Execution) -> Value {
    let (spec, live) = (&execution.spec, &execution.live);
    let (lease, end) = (execution.lease(), execution.end());
    let until = match &live.state {
        State::Delayed { until, .. } => Some(*until),
        State::Held { until, .. } => *until,
        _ => None,
    };
    let held = match &live.state {
        State::Held { actor, cause, at, .. } => {
            Some(json!({ "actor": actor, "cause": cause, "at": time(*at) }))
        }
        _ => None,
    };
    let last_error = live.attempt.as_ref().and_then(|it| it.end.as_ref()).and_then(|it| it.error.as_ref());
    let cancelled = end.and_then(|it| it.cancelled.as_ref()).or_else(|| {
        let request = lease.and_then(|it| it.cancel.as_ref());
        request.map(|it| &it.cancellation)
    });
    json!({
        "id": execution.id,
        "namespace": spec.namespace,
        "lane": spec.lane,
        "kind": spec.kind,
        "state": execution.public_state(),
        "reason": execution.reason(),
        "priority": live.priority,
        "capabilities": spec.capabilities.as_slice(),
        "tags": tags_value(execution),
        "created_at": time(spec.created_at),
        "changed_at": time(live.changed_at),
        "not_before": until.map(time),
        "deadline_at": live.deadline_at.map(time),
        "attempt": execution.attempt_number(),
        "attempts_spent": live.series.spent,
        "attempts_max": spec.policy.max_attempts,
        "series": live.series.number,
        "worker": lease.map(|it| &it.worker),
        "instance": lease.map(|it| it.instance),
        "lease_expires_at": lease.map(|it| time(it.expires_at)),
        "progress": live.attempt.as_ref().and_then(|it| it.progress.as_ref()),
        "held": held,
        "suspension": execution.suspension().map(suspension_value),
        "waitpoints": waitpoints_value(execution),
        "stepped": live.stepped,
        "streamed": live.streamed,
        "parent": spec.parent,
        "cancelled": cancelled.map(|it| json!({ "actor": it.actor, "cause": it.cause, "at": time(it.at) })),
        "error": end.and_then(|it| it.error.as_ref()).or(last_error).map(error_value),
        "ended_at": end.map(|it| time(it.at)),
        "input_bytes": spec.input_bytes,
        "result_bytes": end.and_then(|it| it.result_bytes),
        "flow": execution.flow(),
        "node": execution.node_name(),
        "idempotency_key": spec.idempotency_key,
    })
}

fn suspension_value(suspension: &Suspension) -> Value {
    json!({
        "condition": suspension.condition,
        "since": time(suspension.since),
        "timeout_at": suspension.timeout_at.map(time),
        "on_timeout": suspension.on_timeout,
    })
}

/// The open waitpoints; their tokens are nowhere.
fn waitpoints_value(execution: &Execution) -> Vec<Value> {
    let open = execution.mailbox().into_iter().flat_map(|mailbox| &mailbox.waitpoints);
    open.map(|it| {
        json!({
            "waitpoint": WaitpointId { execution: execution.id, number: it.number },
            "name": it.name,
            "opened_at": time(it.opened_at),
            "expires_at": it.expires_at.map(time),
        })
    })
    .collect()
}

fn tags_value(execution: &Execution) -> Value {
    execution
        .live
        .tags
        .iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

pub fn attempt_value(attempt: &Attempt) -> Value {
    let end = attempt.end.as_ref();
    json!({
        "number": attempt.number,
        "series": attempt.series,
        "worker": attempt.worker,
        "instance": attempt.instance,
        "started_at": time(attempt.started_at),
        "ended_at": end.map(|it| time(it.at)),
        "outcome": end.map(|it| it.outcome),
        "error": end.and_then(|it| it.error.as_ref()).map(error_value),
        "progress": attempt.progress,
    })
}

/// The header and the rows of a list of executions.
pub fn executions_table(executions: &[Execution], now: Ms) -> Table {
    let mut table = table(&["id", "kind", "lane", "state", "reason", "prio", "try", "created", "detail"]);
    for it in executions {
        table.add_row(vec![
            it.id.to_string(),
            it.spec.kind.to_string(),
            it.spec.lane.to_string(),
            it.public_state().to_string(),
            it.reason().to_string(),
            it.live.priority.to_string(),
            it.attempt_number().to_string(),
            age(it.spec.created_at, now),
            detail(it, now),
        ]);
    }
    table
}

/// The one thing about an execution that matters most in the state it is in.
pub fn detail(execution: &Execution, now: Ms) -> String {
    let text = match &execution.live.state {
        State::Ready { .. } => String::new(),
        State::Delayed { until, .. } => format!("next {}", age(*until, now)),
        State::Blocked { .. } => {
            let group = execution.node().map(|node| &node.group).filter(|group| group.pending() > 0);
            if let (None, Some(child)) = (group, execution.child_flow()) {
                return format!("flow {child}");
            }
            group.map_or_else(String::new, |group| format!("{} dependencies open", group.pending()))
        }
        State::Suspended(suspension) => match suspension.timeout_at {
            Some(at) => format!("suspended, {} {}", suspension.on_timeout, age(at, now)),
            None => format!("suspended {}", age(suspension.since, now)),
        },
        State::Held { actor, cause, .. } => format!("held by {actor}: {cause}"),
        State::Active(lease) => {
            let progress = execution.live.attempt.as_ref().and_then(|it| it.progress.as_ref());
            let percent = progress.and_then(|it| it.percent).map_or_else(String::new, |it| format!(" {it}%"));
            let message = progress.and_then(|it| it.message.as_deref()).unwrap_or_default();
            format!("on {}{percent} {message}", lease.worker)
        }
        State::Ended(end) => match (&end.error, &end.cancelled) {
            (Some(error), _) => error_text(error),
            (None, Some(by)) => format!("by {}: {}", by.actor, by.cause),
            (None, None) => format!("took {}", short(end.at - execution.spec.created_at)),
        },
    };
    cut(text.trim_end(), 60)
}

/// Everything about one execution, line by line.
pub fn execution_fields(execution: &Execution, now: Ms) -> Vec<(&'static str, String)> {
    let (spec, live) = (&execution.spec, &execution.live);
    let words = spec.capabilities.as_slice().iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", ");
    let tags = live.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    let mut fields = vec![
        ("id", execution.id.to_string()),
        ("kind", spec.kind.to_string()),
        ("namespace", spec.namespace.to_string()),
        ("lane", spec.lane.to_string()),
        ("state", format!("{} ({})", execution.public_state(), execution.reason())),
        ("priority", live.priority.to_string()),
        (
            "attempts",
            format!(
                "{} started, {} of {} spent",
                execution.attempt_number(),
                live.series.spent,
                spec.policy.max_attempts
            ),
        ),
        ("created", time_and_age(spec.created_at, now)),
    ];
    let mut add = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    add("needs", Some(words).filter(|it| !it.is_empty()));
    add("tags", Some(tags).filter(|it| !it.is_empty()));
    add("flow", execution.flow().map(|flow| flow.to_string()));
    add("node", execution.node_name().map(|name| name.to_string()));
    add("key", spec.idempotency_key.as_deref().map(str::to_owned));
    add("parent", spec.parent.map(|parent| parent.to_string()));
    add("waits for", execution.suspension().map(|it| json!(it.condition).to_string()));
    let open = execution.mailbox().map_or(&[][..], |mailbox| &mailbox.waitpoints);
    let names =
        open.iter().map(|it| format!("{}-{}", execution.id, it.number)).collect::<Vec<_>>().join(", ");
    add("waitpoints", Some(names).filter(|it| !it.is_empty()));
    add("deadline", live.deadline_at.map(|at| time_and_age(at, now)));
    add("ended", execution.end().map(|end| time_and_age(end.at, now)));
    add("detail", Some(detail(execution, now)).filter(|it| !it.is_empty()));
    let error = execution.end().and_then(|end| end.error.as_ref());
    add("error", error.map(|error| cut(&error_text(error), SHOWN_MAX)));
    fields
}

pub fn attempts_table(attempts: &[Attempt]) -> Table {
    let mut table = table(&["try", "worker", "started", "took", "outcome", "error"]);
    for it in attempts {
        let end = it.end.as_ref();
        table.add_row(vec![
            it.number.to_string(),
            it.worker.to_string(),
            time(it.started_at),
            end.map_or_else(|| "running".to_owned(), |end| short(end.at - it.started_at)),
            end.map_or_else(String::new, |end| end.outcome.to_string()),
            end.and_then(|end| end.error.as_ref())
                .map_or_else(String::new, |error| cut(&error_text(error), 80)),
        ]);
    }
    table
}

pub fn duration_text(ms: Ms) -> String {
    duration::show(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_inside_a_text_become_readable_and_nothing_else_changes() {
        let cases = [
            ("not before 1767225600000, in 5s", "not before 2026-01-01T00:00:00.000Z, in 5s"),
            ("has 65 bytes; allowed are 1 to 64", "has 65 bytes; allowed are 1 to 64"),
            ("0197f3a2-6f3e-7c41-9b1d-1767225600000", "0197f3a2-6f3e-7c41-9b1d-1767225600000"),
            ("at 1767225600000", "at 2026-01-01T00:00:00.000Z"),
        ];
        for (text, want) in cases {
            assert_eq!(readable_times(text), want);
        }
    }

    #[test]
    fn lengths_show_two_units() {
        let cases =
            [(5, "5ms"), (1_250, "1.2s"), (61_000, "1m1s"), (3_660_000, "1h1m"), (90_000_000, "1d1h")];
        for (ms, want) in cases {
            assert_eq!(short(ms), want);
        }
    }
}
