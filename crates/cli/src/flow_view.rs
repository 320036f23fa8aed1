//! How flows are shown: tables for people, JSON for programs.

use std::sync::Arc;

use comfy_table::Table;
use flowfabric::{Edge, Execution, Flow, GroupState, Join, Ms, OnSatisfied};
use serde_json::{Map, Value, json};

use crate::view::{self, age, detail, execution_value, time, time_and_age};

/// A flow as programs see it.
pub fn value(flow: &Flow) -> Value {
    let (spec, live) = (&flow.spec, &flow.live);
    let summary: Map<String, Value> =
        live.summary.iter().map(|(state, count)| (state.word().to_owned(), json!(count))).collect();
    let cancel = live.cancel.as_ref().map(|it| {
        json!({
            "policy": it.policy, "actor": it.by.actor, "cause": it.by.cause, "at": time(it.by.at),
        })
    });
    json!({
        "id": flow.id,
        "kind": spec.kind,
        "namespace": spec.namespace,
        "state": flow.state(),
        "sealed": live.sealed,
        "revision": live.revision,
        "node_count": live.nodes,
        "edge_count": live.edges,
        "summary": summary,
        "tags": live.tags.iter().map(|(key, value)| (key.to_owned(), json!(value))).collect::<Map<_, _>>(),
        "created_at": time(spec.created_at),
        "created_by": spec.created_by,
        "changed_at": time(live.changed_at),
        "ended_at": live.end.as_ref().map(|end| time(end.at)),
        "cancelled": cancel,
    })
}

/// A member with its node and the group of its upstreams.
pub fn member_value(execution: &Execution) -> Value {
    let mut value = execution_value(execution);
    if let Some(node) = execution.node() {
        let group = &node.group;
        value["level"] = json!(node.level);
        value["child_flow"] = json!(execution.child_flow());
        value["open"] = json!(node.open);
        value["group"] = json!({
            "join": group.join,
            "state": group.state,
            "total": group.total,
            "needed": group.join.need(group.total),
            "satisfied": group.satisfied,
            "succeeded": group.succeeded,
            "failed": group.failed,
            "skipped": group.skipped,
            "running": group.pending(),
        });
    }
    value
}

pub fn edge_value(edge: &Edge) -> Value {
    json!({
        "number": edge.number,
        "upstream": edge.key.upstream,
        "downstream": edge.key.downstream,
        "on": edge.on,
        "field": edge.field,
        "state": edge.state(),
        "created_at": time(edge.created_at),
        "created_by": edge.created_by,
    })
}

/// How many members stand where, in words.
pub fn summary(flow: &Flow) -> String {
    let counts: Vec<String> =
        flow.live.summary.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if counts.is_empty() { "no nodes".to_owned() } else { counts.join(", ") }
}

/// Everything about one flow, line by line.
pub fn fields(flow: &Flow, now: Ms) -> Vec<(&'static str, String)> {
    let (spec, live) = (&flow.spec, &flow.live);
    let tags = live.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    let sealed = if live.sealed { "sealed" } else { "open: nodes and edges may be added" };
    let mut fields = vec![
        ("id", flow.id.to_string()),
        ("kind", spec.kind.to_string()),
        ("namespace", spec.namespace.to_string()),
        ("state", flow.state().to_string()),
        (
            "graph",
            format!("{} nodes, {} edges, revision {}, {sealed}", live.nodes, live.edges, live.revision),
        ),
        ("nodes", summary(flow)),
        ("created", format!("{} by {}", time_and_age(spec.created_at, now), spec.created_by)),
        ("changed", time_and_age(live.changed_at, now)),
    ];
    let mut add = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    add("tags", Some(tags).filter(|it| !it.is_empty()));
    add("ended", live.end.as_ref().map(|end| time_and_age(end.at, now)));
    add(
        "cancelled",
        live.cancel.as_ref().map(|it| {
            let text =
                format!("{} {} by {}: {}", it.policy, time_and_age(it.by.at, now), it.by.actor, it.by.cause);
            text.trim_end_matches([' ', ':']).to_owned()
        }),
    );
    fields
}

pub fn flows_table(flows: &[Flow], now: Ms) -> Table {
    let mut table = view::table(&["id", "kind", "state", "nodes", "created", "summary"]);
    for it in flows {
        table.add_row(vec![
            it.id.to_string(),
            it.spec.kind.to_string(),
            it.state().to_string(),
            it.live.nodes.to_string(),
            age(it.spec.created_at, now),
            summary(it),
        ]);
    }
    table
}

pub fn members_table(members: &[Arc<Execution>], now: Ms) -> Table {
    let mut table = view::table(&["nr", "node", "id", "kind", "state", "reason", "waits for", "detail"]);
    for it in members {
        let number = it.spec.member.as_ref().map_or(0, |member| member.number);
        table.add_row(vec![
            number.to_string(),
            name(it),
            it.id.to_string(),
            it.spec.kind.to_string(),
            it.public_state().to_string(),
            it.reason().to_string(),
            waits_for(it),
            detail(it, now),
        ]);
    }
    table
}

pub fn name(member: &Execution) -> String {
    member.node_name().map_or_else(|| member.id.to_string(), |name| name.to_string())
}

/// The group of a node in words: how many of how many, and how many are there.
fn waits_for(member: &Execution) -> String {
    let Some(node) = member.node() else { return String::new() };
    let (group, open) = (&node.group, if node.open { ", open" } else { "" });
    if group.total == 0 && !node.open {
        return "nothing".to_owned();
    }
    let there = match group.state {
        GroupState::Waiting => format!("{} there", group.satisfied),
        state => state.to_string(),
    };
    format!("{}, {there}{open}", join(group.join, group.total))
}

/// A policy in words.
pub fn join(join: Join, total: u32) -> String {
    let rest = |on_satisfied| if on_satisfied == OnSatisfied::LetRun { ", the rest runs on" } else { "" };
    match join {
        Join::AllOf if total == 1 => "one".to_owned(),
        Join::AllOf => format!("all of {total}"),
        Join::AnyOf { on_satisfied } => format!("any of {total}{}", rest(on_satisfied)),
        Join::Quorum { k, on_satisfied } => format!("{k} of {total}{}", rest(on_satisfied)),
    }
}
