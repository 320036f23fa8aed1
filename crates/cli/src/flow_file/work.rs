//! How a node runs: its input, where it goes, its times and its tries.

use std::time::Duration;

use flowfabric::{Ms, Policy, Submission};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::Fault;
use super::fields::{At, Fields};

/// What a node is given.
pub const WORK: &[&str] = &["input", "input_base64", "content_type"];
/// How a node runs; `defaults` may say the same for all.
pub const RUNS: &[&str] = &[
    "lane",
    "priority",
    "attempts",
    "backoff",
    "policy",
    "delay",
    "run_at",
    "deadline",
    "deadline_at",
    "attempt_timeout",
    "schedule_to_start",
    "lease",
    "capabilities",
    "tags",
];
pub const POLICY: &[&str] = &[
    "attempt_timeout_ms",
    "backoff",
    "lease_grace_ms",
    "lease_loss",
    "lease_ms",
    "losses_max",
    "max_attempts",
    "max_elapsed_ms",
    "non_retryable",
    "replays_max",
    "schedule_to_start_ms",
];
pub const BACKOFF: &[&str] = &["factor", "initial_ms", "jitter", "max_ms"];

/// What is not JSON and not said to be anything else.
const BYTES: &str = "application/octet-stream";

/// The work of a node; what it does not say, the defaults do.
pub fn work(kind: &str, fields: &Fields<'_>, defaults: Option<&Fields<'_>>) -> Result<Submission, Fault> {
    let mut work = input(kind, fields)?;
    let mut policy = Policy::default();
    for fields in defaults.into_iter().chain([fields]) {
        work = times(places(work, fields)?, fields)?;
        policy = tries(policy, fields)?;
    }
    Ok(work.policy(policy))
}

/// `key: text` pairs.
pub fn pairs<'t>(at: Option<&At<'t>>) -> Result<Vec<(&'t str, &'t str)>, Fault> {
    let entries = at.map_or(Ok(Vec::new()), At::entries)?;
    entries.into_iter().map(|(key, value)| Ok((key, value.text()?))).collect()
}

fn input(kind: &str, fields: &Fields<'_>) -> Result<Submission, Fault> {
    let of = fields.get("content_type");
    let content_type = of.map(At::text).transpose()?;
    let is_json = content_type.is_none_or(|it| it == ff_core::payload::JSON);
    match (fields.get("input_base64"), fields.get("input"), of) {
        (Some(at), Some(_), _) => Err(at.fault("goes without input; a node has one input")),
        (Some(at), None, _) => {
            let bytes = ff_core::base64::decode(at.text()?).ok_or_else(|| at.fault("is not base64"))?;
            Ok(Submission::of_bytes(kind, content_type.unwrap_or(BYTES), bytes))
        }
        (None, Some(at), _) if !is_json => {
            Ok(Submission::of_bytes(kind, content_type.unwrap_or(BYTES), at.text()?.as_bytes().to_vec()))
        }
        (None, None, Some(of)) if !is_json => Err(of.fault("needs input with a text, or input_base64")),
        (None, at, _) => Ok(Submission::new(kind, &at.map_or(Value::Null, |at| at.tree.value()))),
    }
}

fn places(mut work: Submission, fields: &Fields<'_>) -> Result<Submission, Fault> {
    if let Some(at) = fields.get("lane") {
        work = work.lane(at.text()?);
    }
    if let Some(at) = fields.get("priority") {
        work = work.priority(at.number()?);
    }
    for at in fields.get("capabilities").map_or(Vec::new(), At::items) {
        work = work.capability(at.text()?);
    }
    for (key, value) in pairs(fields.get("tags"))? {
        work = work.tag(key, value);
    }
    Ok(work)
}

fn times(mut work: Submission, fields: &Fields<'_>) -> Result<Submission, Fault> {
    if let Some(at) = fields.get("delay") {
        work = work.delay(at.duration()?);
    }
    if let Some(at) = fields.get("run_at") {
        if fields.get("delay").is_some() {
            return Err(at.fault("goes without delay; a node starts at one time"));
        }
        work = work.run_at(at.time()?);
    }
    if let Some(at) = fields.get("deadline") {
        work = work.deadline(at.duration()?);
    }
    if let Some(at) = fields.get("deadline_at") {
        if fields.get("deadline").is_some() {
            return Err(at.fault("goes without deadline; a node has one"));
        }
        work = work.deadline_at(at.time()?);
    }
    Ok(work)
}

/// The short fields win over the policy that stands beside them.
fn tries(mut policy: Policy, fields: &Fields<'_>) -> Result<Policy, Fault> {
    let ms = |time: Duration| Ms::try_from(time.as_millis()).unwrap_or(Ms::MAX);
    if let Some(at) = fields.get("policy") {
        policy = overlaid(&policy, at)?;
    }
    if let Some(at) = fields.get("attempts") {
        policy.max_attempts = at.number()?;
    }
    if let Some(at) = fields.get("backoff") {
        policy.backoff.initial_ms = ms(at.duration()?);
        // A first pause longer than the longest would be cut without a word.
        policy.backoff.max_ms = policy.backoff.max_ms.max(policy.backoff.initial_ms);
    }
    if let Some(at) = fields.get("attempt_timeout") {
        policy.attempt_timeout_ms = Some(ms(at.duration()?));
    }
    if let Some(at) = fields.get("schedule_to_start") {
        policy.schedule_to_start_ms = Some(ms(at.duration()?));
    }
    if let Some(at) = fields.get("lease") {
        policy.lease_ms = ms(at.duration()?);
    }
    Ok(policy)
}

/// A policy with what a file says of it put over what it was.
fn overlaid(policy: &Policy, at: &At<'_>) -> Result<Policy, Fault> {
    let said = at.fields(POLICY)?;
    let mut value = json!(policy);
    for name in POLICY {
        let Some(field) = said.get(name) else { continue };
        if *name != "backoff" {
            value[name] = field.tree.value();
            read(&value, field)?;
            continue;
        }
        let mut backoff = json!(policy.backoff);
        let said = field.fields(BACKOFF)?;
        for (name, part) in BACKOFF.iter().filter_map(|name| Some((name, said.get(name)?))) {
            backoff[name] = part.tree.value();
            value["backoff"] = backoff.clone();
            read(&value, part)?;
        }
    }
    read(&value, at)
}

/// The policy that a document is; what is wrong with it stands at `at`.
fn read(value: &Value, at: &At<'_>) -> Result<Policy, Fault> {
    Policy::deserialize(value).map_err(|error| at.fault(format!("does not fit: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said field by field here is what the API takes.
    #[test]
    fn a_policy_has_the_fields_of_the_api() {
        let document: Value = serde_json::from_str(include_str!("../../../server/openapi.json")).unwrap();
        let names = |schema: &str| -> Vec<String> {
            let fields = document["components"]["schemas"][schema]["properties"].as_object().unwrap();
            let mut names: Vec<String> = fields.keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(names("Policy"), POLICY);
        assert_eq!(names("Backoff"), BACKOFF);
    }
}
