//! Help is part of the interface: a change shows in a review.

use crate::stand::Stand;

#[test]
fn the_root_explains_settings_and_exit_codes() {
    insta::assert_snapshot!("help", Stand::new().ok(["--help"]));
}

#[test]
fn every_command_has_help() {
    let stand = Stand::new();
    for command in [
        "demo",
        "serve",
        "submit",
        "get",
        "result",
        "list",
        "watch",
        "explain",
        "cancel",
        "flow",
        "flow submit",
        "flow get",
        "flow graph",
        "flow list",
        "flow cancel",
        "flow grow",
        "flow edge",
        "flow edges",
        "flow result",
        "flow policy",
        "flow seal",
        "flow tag",
        "waitpoint",
        "waitpoint list",
        "waitpoint show",
        "signal",
        "signals",
        "resume",
        "stream",
        "steps",
        "key",
        "key rotate",
        "token",
        "token create",
        "token get",
        "token revoke",
        "webhook",
        "webhook set",
        "webhook get",
        "webhook pause",
        "bulk",
        "bulk cancel",
        "bulk replay",
        "bulk priority",
        "bulk get",
        "bulk stop",
        "replay",
        "hold",
        "release",
        "revoke",
        "priority",
        "tag",
        "remove",
        "counts",
        "namespaces",
        "info",
        "health",
        "metrics",
        "tail",
        "worker",
        "worker get",
        "worker bury",
        "workers",
        "lane",
        "lane get",
        "inbox",
        "inbox get",
        "store",
        "doctor",
        "bench",
        "completions",
    ] {
        let help = stand.ok(command.split(' ').chain(["--help"]));
        assert!(help.contains("Example"), "{command} has no example");
        insta::assert_snapshot!(format!("help-{}", command.replace(' ', "-")), help);
    }
}

#[test]
fn completions_name_the_commands() {
    let stand = Stand::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stand.ok(["completions", shell]).contains("graph"), "{shell}");
    }
}

#[test]
fn no_command_is_a_usage_error() {
    assert_eq!(Stand::new().run([]).code, 2);
    assert_eq!(Stand::new().run(["frobnicate"]).code, 2);
}
