//! A flag wins over the environment, that over the file, that over the default.

use crate::stand::{Said, Stand};

#[test]
fn flag_over_environment_over_file_over_default() {
    let stand = Stand::new();
    stand.submit(["x"]);
    assert!(stand.path("flowfabric.db").exists());

    stand.write("flowfabric.toml", "store = \"sqlite:file.db\"\n");
    stand.submit(["x"]);
    assert!(stand.path("file.db").exists());

    let with_environment = |args: &[&str]| -> Said {
        let mut command = stand.command(args.iter().copied());
        command.env("FLOWFABRIC_STORE", "sqlite:environment.db").output().unwrap().into()
    };
    assert_eq!(with_environment(&["submit", "x"]).code, 0);
    assert!(stand.path("environment.db").exists());
    assert_eq!(with_environment(&["submit", "x", "--store", "sqlite:flag.db"]).code, 0);
    assert!(stand.path("flag.db").exists());
}

#[test]
fn every_option_is_in_the_environment() {
    let stand = Stand::new();
    let mut command = stand.command(["submit", "x"]);
    command.env("FLOWFABRIC_SUBMIT_LANE", "billing").env("FLOWFABRIC_JSON", "true");
    let said: Said = command.output().unwrap().into();
    let id = serde_json::from_str::<serde_json::Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(stand.json(["get", &id])["lane"], "billing");
}

#[test]
fn limits_come_from_the_file() {
    let stand = Stand::new();
    stand.write("other.toml", "[limits]\ninput_bytes_max = 4\n");
    let said = stand.run(["--config", "other.toml", "submit", "x", "--input", "12345"]);
    assert_eq!((said.code, said.err.as_str()), (2, "error: input has 5 bytes; allowed are at most 4"));
}

#[test]
fn an_unknown_key_or_a_bad_value_in_the_file_is_an_error() {
    let stand = Stand::new();
    for (text, want) in [
        ("stroe = \"sqlite:a.db\"", "unknown field `stroe`"),
        ("\n[limits]\ninputs = 4", "unknown field `inputs`"),
        ("store = 5", "expected a string"),
        ("store = ", "flowfabric.toml, line 1"),
        ("log = \"loud\"", "allowed are off, error, warn, info, debug and trace"),
    ] {
        stand.write("flowfabric.toml", text);
        let said = stand.run(["submit", "x"]);
        assert_eq!(said.code, 2, "{text}: {said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains(want), "{text}: {said:?}");
        assert_eq!(said.out, "");
    }
    assert_eq!(stand.run(["--config", "missing.toml", "submit", "x"]).code, 2);
    assert!(!stand.path("flowfabric.db").exists());
}

#[test]
fn options_of_commands_come_from_their_tables_unless_something_stronger_says_otherwise() {
    let stand = Stand::new();
    let lane = |out: &str| stand.json(["get", out])["lane"].as_str().unwrap().to_owned();
    stand.write(
        "flowfabric.toml",
        "json = false\n[submit]\nlane = \"billing\"\npriority = 3\n\n[limits]\ntags_max = 9\n",
    );
    let id = stand.submit(["x"]);
    assert_eq!(lane(&id), "billing");
    assert_eq!(stand.json(["get", &id])["priority"], 3);
    assert_eq!(lane(&stand.submit(["x", "--lane", "flag"])), "flag");
    let said: Said =
        stand.command(["submit", "x"]).env("FLOWFABRIC_SUBMIT_LANE", "environment").output().unwrap().into();
    assert_eq!(lane(&said.out), "environment");

    stand.write("flowfabric.toml", "[serve]\nlisten = \"127.0.0.1:0\"\nauth = true\nwait_max = \"2s\"\n");
    let served = stand.serve([]);
    assert!(served.token.is_some(), "auth = true was not heard");
}

#[test]
fn a_wrong_table_of_a_command_is_an_error_that_names_the_key() {
    let stand = Stand::new();
    for (text, want) in [
        ("[serve]\nlisten_on = \"a\"", "there is no option serve.listen_on"),
        ("[serve]\nauth = \"yes\"", "auth is of the type string; allowed are true and false"),
        ("[serve]\nlisten = { host = \"a\" }", "listen is of the type table"),
        ("[serve]\nconnections_max = \"many\"", "--connections-max"),
        ("[submit.now]\nlane = \"a\"", "there is no option submit.now"),
        ("[nothing]\nlane = \"a\"", "unknown field `nothing`"),
    ] {
        stand.write("flowfabric.toml", text);
        let said = stand.run(
            ["serve", "--listen", "127.0.0.1:0"]
                .into_iter()
                .filter(|it| !text.contains("listen =") || *it == "serve"),
        );
        assert_eq!(said.code, 2, "{text}: {said:?}");
        assert!(said.err.starts_with("error: ") && said.err.contains(want), "{text}: {said:?}");
    }
    assert!(!stand.path("flowfabric.db").exists());
}
