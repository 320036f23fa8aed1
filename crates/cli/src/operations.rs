//! Which command does what the HTTP API can: everything an operator may ask a server for has one.

use serde_json::Value;

use crate::cli;

/// Operations, each with a command and the option without which it is not asked for.
pub const COMMANDS: &[(&str, &str)] = &[
    ("bulk_cancel", "bulk cancel"),
    ("bulk_get", "bulk get --wait"),
    ("bulk_list", "bulk list"),
    ("bulk_priority", "bulk priority"),
    ("bulk_replay", "bulk replay"),
    ("bulk_stop", "bulk stop"),
    ("events_all", "tail"),
    ("events_of_execution", "tail --execution"),
    ("executions_attempts", "get --attempts"),
    ("executions_count", "list --count"),
    ("executions_counts", "counts"),
    ("executions_explain", "explain"),
    ("executions_get", "get"),
    ("executions_input", "get"),
    ("executions_list", "list"),
    ("executions_result", "result --timeout"),
    ("executions_steps", "steps"),
    ("executions_submit", "submit --file"),
    ("flows_add_edges", "flow edge"),
    ("flows_cancel", "flow cancel --wait"),
    ("flows_create", "flow submit"),
    ("flows_edge", "flow edges --from"),
    ("flows_edges", "flow edges --out"),
    ("flows_get", "flow get"),
    ("flows_graph", "flow graph"),
    ("flows_list", "flow list"),
    ("flows_members", "flow get"),
    ("flows_nodes", "flow grow"),
    ("flows_policy", "flow policy"),
    ("flows_result", "flow result --timeout"),
    ("flows_seal", "flow seal"),
    ("flows_tags", "flow tag"),
    ("inbox_get", "inbox get"),
    ("inbox_list", "inbox list"),
    ("inbox_remove", "inbox drop"),
    ("inbox_repost", "inbox repost"),
    ("keys_list", "key list"),
    ("keys_rotate", "key rotate"),
    ("lanes_change", "lane set"),
    ("lanes_get", "lane get"),
    ("lanes_list", "lane list"),
    ("namespaces_get", "namespaces"),
    ("namespaces_list", "namespaces"),
    ("operating_cancel", "cancel"),
    ("operating_hold", "hold"),
    ("operating_priority", "priority"),
    ("operating_release", "release"),
    ("operating_remove", "remove"),
    ("operating_replay", "replay"),
    ("operating_resume", "resume"),
    ("operating_revoke", "revoke"),
    ("operating_tags", "tag"),
    ("output_stream", "stream --newest-first"),
    ("server_healthz", "health"),
    ("server_info", "info"),
    ("server_limits", "info"),
    ("server_metrics", "metrics"),
    ("server_readyz", "health --ready"),
    ("server_stats", "info"),
    ("signals_issue_token", "waitpoint show --token"),
    ("signals_list_of_execution", "signals"),
    ("signals_signal_execution", "signal"),
    ("signals_signal_waitpoint", "signal --token"),
    ("signals_waitpoint", "waitpoint show"),
    ("signals_waitpoints", "waitpoint list --wait"),
    ("tokens_create", "token create"),
    ("tokens_get", "token get"),
    ("tokens_list", "token list"),
    ("tokens_revoke", "token revoke"),
    ("webhooks_get", "webhook get"),
    ("webhooks_list", "webhook list"),
    ("webhooks_remove", "webhook remove"),
    ("webhooks_set", "webhook set"),
    ("workers_drain", "worker drain"),
    ("workers_get", "worker get"),
    ("workers_leave", "worker bury"),
    ("workers_list", "worker list"),
];

/// Operations without a command, by their beginning, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("tasks_", "what a worker says of work it holds; SDKs and `worker --exec` speak it"),
    ("workers_claim", "asks for work; SDKs and `worker --exec` speak it"),
    ("workers_heartbeat", "keeps work; SDKs and `worker --exec` speak it"),
    ("workers_register", "begins a worker; SDKs and `worker --exec` speak it"),
];

fn operations() -> Vec<String> {
    let document: Value = serde_json::from_str(include_str!("../../server/openapi.json")).unwrap();
    let paths = document["paths"].as_object().unwrap().values();
    let calls = paths.flat_map(|path| path.as_object().unwrap().values());
    calls.filter_map(|call| call["operationId"].as_str()).map(str::to_owned).collect()
}

#[test]
fn every_operation_of_the_api_has_a_command_or_a_reason_to_have_none() {
    let operations = operations();
    assert!(operations.len() > 80, "the document has lost its operations");
    let has_command = |id: &str| COMMANDS.iter().any(|(known, _)| *known == id);
    let excepted = |id: &str| EXCEPTIONS.iter().any(|(start, _)| id.starts_with(start));
    let without: Vec<&String> = operations.iter().filter(|id| !has_command(id) && !excepted(id)).collect();
    assert!(without.is_empty(), "add a command and name it in src/operations.rs: {without:?}");
    let both: Vec<&String> = operations.iter().filter(|id| has_command(id) && excepted(id)).collect();
    assert!(both.is_empty(), "these have a command and an exception: {both:?}");
    let known = COMMANDS.iter().map(|(id, _)| id).chain(EXCEPTIONS.iter().map(|(start, _)| start));
    let gone: Vec<&&str> = known.filter(|id| !operations.iter().any(|it| it.starts_with(**id))).collect();
    assert!(gone.is_empty(), "the API has lost these; name them no more: {gone:?}");
}

#[test]
fn every_command_that_is_named_is_there() {
    let root = cli::command();
    for (operation, command) in COMMANDS {
        let mut place = &root;
        for word in command.split(' ') {
            match word.strip_prefix("--") {
                Some(option) => {
                    let found = place.get_arguments().any(|arg| arg.get_long() == Some(option));
                    assert!(found, "{operation}: {command}");
                }
                None => {
                    let below = place.find_subcommand(word);
                    place = below.unwrap_or_else(|| panic!("{operation}: there is no {command}"));
                }
            }
        }
    }
}
