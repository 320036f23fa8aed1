//! Which option offers what a question or a body of the HTTP API may say: everything an operator may say has one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::operations::COMMANDS;
use crate::{cli, flow_file};

/// Where something may be said.
#[derive(Clone, Copy, Debug)]
enum Offer {
    /// By a command, with an option or with an argument as its help calls it.
    Command(&'static str),
    /// By a field of a node in a flow file.
    FlowFile(&'static str),
    /// By nobody, with the reason.
    Nobody(&'static str),
}
use Offer::{Command, FlowFile, Nobody};

/// Fields that options of the operation's own command call otherwise. An option of the same name, without its unit,
/// need not be named here.
const WORDS: &[(&str, &str)] = &[
    ("capabilities", "capability"),
    ("created_before", "until"),
    ("created_from", "since"),
    ("deadline_at", "deadline"),
    ("digest", "action"),
    ("expires_in_ms", "expires"),
    ("factor", "backoff-factor"),
    ("facts", "fact"),
    ("families", "family"),
    ("idempotency_key", "key"),
    ("initial_ms", "backoff"),
    ("jitter", "no-jitter"),
    ("max_attempts", "attempts"),
    ("max_ms", "backoff-max"),
    ("namespaces", "namespace"),
    ("start_at", "run-at"),
    ("states", "state"),
    ("tags", "tag"),
];

/// The rest: operation, field, offer. A `*` at the end stands for whatever follows; the first that fits counts.
const OFFERS: &[(&str, &str, Offer)] = &[
    ("*", "scan", Nobody("how much one answer looks at; what people ask for is a page")),
    ("executions_list", "order", Command("list --oldest-first")),
    ("flows_list", "order", Command("flow list --oldest-first")),
    ("output_stream", "order", Command("stream --newest-first")),
    ("signals_waitpoints", "order", Command("waitpoint list --oldest-first")),
    ("bulk_cancel", "priority", Nobody("goes with the verb priority only")),
    ("bulk_replay", "priority", Nobody("goes with the verb priority only")),
    ("bulk_replay", "grace_ms", Nobody("goes with the verb cancel only")),
    ("bulk_priority", "grace_ms", Nobody("goes with the verb cancel only")),
    ("bulk_priority", "priority", Command("bulk priority N")),
    ("bulk_*", "ids", Command("bulk cancel ID")),
    ("events_*", "cursor", Command("tail --from")),
    ("events_*", "start", Command("tail --from")),
    ("events_*", "wait", Nobody("`tail` waits by itself; --timeout ends it")),
    ("executions_get", "wait", Command("watch --timeout")),
    ("executions_result", "wait", Command("result --timeout")),
    ("executions_submit", "executions.*", Command("submit --file")),
    ("executions_submit", "kind", Command("submit KIND")),
    ("executions_submit", "input_encoded.*", Command("submit --content-type")),
    ("executions_submit", "policy.*", Command("submit --policy")),
    ("executions_steps", "after", Nobody("the command shows all steps, page by page")),
    ("executions_steps", "limit", Nobody("the command shows all steps, page by page")),
    ("flows_cancel", "members_after", Nobody("the command asks for all members, page by page")),
    ("flows_add_edges", "edges.from", Command("flow edge FROM")),
    ("flows_add_edges", "edges.to", Command("flow edge TO")),
    ("flows_add_edges", "edges.field", Command("flow edge --as")),
    ("flows_add_edges", "nodes.*", Nobody("refused there; nodes are added with `flow grow`")),
    ("flows_create", "kind", Command("flow submit FILE")),
    ("flows_create", "namespace", Command("flow submit FILE")),
    ("flows_create", "sealed", Command("flow submit FILE")),
    ("flows_edges", "direction", Command("flow edges --out")),
    ("flows_get", "wait", Command("flow graph --watch")),
    ("flows_result", "wait", Command("flow result --timeout")),
    ("flows_policy", "join.policy", Command("flow policy POLICY")),
    ("flows_policy", "join.on_satisfied", Command("flow policy --let-run")),
    ("flows_*", "edges.from", FlowFile("after")),
    ("flows_*", "edges.to", FlowFile("after")),
    ("flows_*", "edges.on", FlowFile("on_failure")),
    ("flows_*", "edges.field", FlowFile("inputs")),
    (
        "flows_*",
        "nodes.child.id",
        Nobody("made of the id of the flow around it, so that asking again finds it"),
    ),
    (
        "flows_*",
        "nodes.child.sealed",
        Nobody("a flow in a file is whole; one that grows is a flow of its own"),
    ),
    (
        "flows_*",
        "nodes.child.tags",
        Nobody("found by the flow around it; `flow tag` gives it tags of its own"),
    ),
    ("flows_*", "nodes.child.*", FlowFile("flow")),
    ("flows_*", "nodes.hedge.*", FlowFile("hedge")),
    ("flows_*", "nodes.join.k", FlowFile("quorum")),
    ("flows_*", "nodes.join.policy", FlowFile("any_of")),
    ("flows_*", "nodes.join.on_satisfied", FlowFile("let_run")),
    ("flows_*", "nodes.name", Command("flow submit FILE")),
    ("flows_*", "nodes.open", FlowFile("open")),
    ("flows_*", "nodes.run.id", Nobody("made of the id of the flow, so that asking again finds it")),
    ("flows_*", "nodes.run.idempotency_key", Nobody("a member is made once with its flow, which has an id")),
    ("flows_*", "nodes.run.namespace", Nobody("that of the flow")),
    ("flows_*", "nodes.run.input_encoded.base64", FlowFile("input_base64")),
    ("flows_*", "nodes.run.input_encoded.content_type", FlowFile("content_type")),
    ("flows_*", "nodes.run.start_at", FlowFile("run_at")),
    ("flows_*", "nodes.run.delay_ms", FlowFile("delay")),
    ("flows_*", "nodes.run.deadline_ms", FlowFile("deadline")),
    ("flows_*", "nodes.run.policy.*", FlowFile("policy")),
    ("flows_*", "nodes.run.capabilities", FlowFile("capabilities")),
    ("flows_*", "nodes.run.deadline_at", FlowFile("deadline_at")),
    ("flows_*", "nodes.run.input", FlowFile("input")),
    ("flows_*", "nodes.run.kind", FlowFile("kind")),
    ("flows_*", "nodes.run.lane", FlowFile("lane")),
    ("flows_*", "nodes.run.priority", FlowFile("priority")),
    ("flows_*", "nodes.run.tags", FlowFile("tags")),
    ("inbox_list", "*", Nobody("the command shows all, page by page")),
    ("lanes_change", "mode", Command("lane pause")),
    ("operating_priority", "priority", Command("priority N")),
    ("operating_tags", "*", Command("tag CHANGE")),
    ("flows_tags", "*", Command("flow tag TAG")),
    ("output_stream", "bytes", Nobody("how much one answer holds; the command asks until it has all")),
    ("output_stream", "wait", Command("stream --follow")),
    ("signals_list_of_execution", "*", Nobody("the command shows all, page by page")),
    ("signals_signal_*", "payload_encoded.*", Command("signal --content-type")),
    ("signals_waitpoints", "cursor", Command("waitpoint list --after")),
    ("tokens_create", "name", Command("token create NAME")),
    ("webhooks_set", "url", Command("webhook set URL")),
];

/// The options of a question and the fields of a body, down to those that hold no other known ones.
fn said(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let calls = document["paths"].as_object().unwrap().values();
    let calls = calls.flat_map(|path| path.as_object().unwrap().values());
    let calls = calls.filter_map(|call| Some((call["operationId"].as_str()?.to_owned(), call)));
    let fields = |call: &Value| {
        let asked = call["parameters"].as_array().into_iter().flatten();
        let asked = asked.filter(|it| it["in"] == "query").filter_map(|it| it["name"].as_str());
        let mut found: BTreeSet<String> = asked.map(str::to_owned).collect();
        let bodies = call["requestBody"]["content"].as_object().into_iter().flat_map(|it| it.values());
        bodies.for_each(|body| descend(document, &body["schema"], "", &[], &mut found));
        found
    };
    calls.map(|(id, call)| (id, fields(call))).collect()
}

fn descend(document: &Value, schema: &Value, path: &str, within: &[&str], found: &mut BTreeSet<String>) {
    let name = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next());
    if let Some(name) = name {
        // What holds itself, as a flow holds flows, is as deep as it is the first time.
        if !within.contains(&name) {
            let within = [within, &[name]].concat();
            descend(document, &document["components"]["schemas"][name], path, &within, found);
        }
        return;
    }
    let some = ["oneOf", "anyOf", "allOf"].iter().filter_map(|it| schema[it].as_array()).flatten();
    some.for_each(|it| descend(document, it, path, within, found));
    if schema["items"].is_object() {
        descend(document, &schema["items"], path, within, found);
    }
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        let before = found.len();
        descend(document, schema, &path, within, found);
        if found.len() == before {
            found.insert(path);
        }
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

/// Whether there is a command with this option or argument.
fn is_there(offer: &str) -> bool {
    let root = cli::command();
    let mut place = &root;
    for word in offer.split(' ') {
        if let Some(below) = place.find_subcommand(word) {
            place = below;
            continue;
        }
        let named = |arg: &clap::Arg| match word.strip_prefix("--") {
            Some(option) => arg.get_long() == Some(option),
            None => {
                let names = arg.get_value_names().unwrap_or_default();
                arg.is_positional() && names.iter().any(|name| name.as_str() == word)
            }
        };
        if !place.get_arguments().any(named) {
            return false;
        }
    }
    true
}

/// Whether the command of an operation has an option of a field's name.
fn is_named(operation: &str, field: &str) -> bool {
    let Some((_, command)) = COMMANDS.iter().find(|(id, _)| *id == operation) else { return false };
    let command = command.split(" --").next().unwrap_or_default();
    let last = field.rsplit('.').next().unwrap_or_default();
    let other = WORDS.iter().find(|(word, _)| *word == last).map(|(_, option)| *option);
    let own = last.replace('_', "-");
    let names = [Some(own.as_str()), own.strip_suffix("-ms"), other];
    names.into_iter().flatten().any(|name| is_there(&format!("{command} --{name}")))
}

#[test]
fn everything_that_may_be_said_over_http_has_an_option_or_a_reason_to_have_none() {
    let document: Value = serde_json::from_str(include_str!("../../server/openapi.json")).unwrap();
    let said = said(&document);
    let known = |operation: &str| COMMANDS.iter().any(|(id, _)| *id == operation);
    let mut without = Vec::new();
    let mut used = BTreeSet::new();
    // What has no command, which is what workers say, needs no options either.
    for (operation, fields) in said.iter().filter(|(operation, _)| known(operation)) {
        for field in fields {
            let listed = OFFERS.iter().position(|(id, path, _)| fits(id, operation) && fits(path, field));
            used.extend(listed);
            // A field of a node is no option of the command that reads the file.
            let named = !field.contains("nodes.") && is_named(operation, field);
            if listed.is_none() && !named {
                without.push(format!("{operation} {field}"));
            }
        }
    }
    assert!(said["executions_submit"].contains("policy.backoff.factor"), "the document is not understood");
    assert!(without.is_empty(), "add an option and name it in src/options.rs: {without:#?}");
    let unused: Vec<_> = (0..OFFERS.len()).filter(|n| !used.contains(n)).map(|n| OFFERS[n]).collect();
    assert!(unused.is_empty(), "nothing of the API needs these; name them no more: {unused:#?}");
}

#[test]
fn every_offer_is_there() {
    for (operation, field, offer) in OFFERS {
        let there = match offer {
            Command(offer) => is_there(offer),
            FlowFile(name) => flow_file::fields_of_nodes().contains(name),
            Nobody(reason) => !reason.is_empty(),
        };
        assert!(there, "{operation} {field}: {offer:?}");
    }
}
