//! How a server or a store is: exit codes that containers and services understand.

use crate::stand::{Said, Stand};

#[test]
fn a_server_that_lives_is_healthy_also_for_who_has_no_token() {
    let stand = Stand::new();
    let server = stand.serve(["--auth"]);
    let ask = |args: &[&str]| -> Said {
        stand.run(args.iter().copied().chain(["--server", &server.url, "--patience", "10s"]))
    };
    for args in [&["health"][..], &["health", "--ready"]] {
        let said = ask(args);
        assert_eq!((said.code, said.out.as_str()), (0, "ok"), "{said:?}");
    }
    assert_eq!(ask(&["health", "--json"]).out, "{\n  \"status\": \"ok\"\n}");
    let refused = ask(&["metrics"]);
    assert!(refused.code == 1 && refused.err.contains("a token is needed"), "{refused:?}");
    let mut metrics = stand.command(["metrics", "--server", &server.url]);
    let metrics: Said =
        metrics.env("FLOWFABRIC_TOKEN", server.token.as_deref().unwrap()).output().unwrap().into();
    assert!(metrics.out.contains("\nflowfabric_commits_total "), "{metrics:?}");
}

#[test]
fn a_server_is_asked_where_the_environment_names_its_store() {
    let stand = Stand::new();
    let server = stand.serve([]);
    let mut command = stand.command(["health", "--server", &server.url]);
    let said: Said = command.env("FLOWFABRIC_STORE", "sqlite:elsewhere.db").output().unwrap().into();
    assert_eq!((said.code, said.out.as_str()), (0, "ok"), "{said:?}");
}

#[test]
fn who_does_not_answer_is_not_healthy() {
    let stand = Stand::new();
    let server = stand.serve([]);
    let url = server.url.clone();
    server.process.terminate();
    for args in [&["health", "--server", &url][..], &["health", "--ready", "--server", &url], &["health"]] {
        let store = args.len() == 1;
        if store {
            std::fs::remove_file(stand.path("flowfabric.db")).unwrap();
        }
        let said = stand.run(args.iter().copied());
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains(if store { "there is no file" } else { "cannot be reached" }), "{said:?}");
    }
    // Somebody who takes connections and says nothing.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", deaf.local_addr().unwrap());
    let said = stand.run(["health", "--server", &url, "--patience", "50ms"]);
    assert!(said.code == 1 && said.err.contains("no answer within 50ms"), "{said:?}");
    assert_eq!(stand.run(["health", "--server", "nonsense"]).code, 2);
}

#[test]
fn a_store_that_answers_is_healthy_and_has_no_metrics() {
    let stand = Stand::new();
    stand.submit(["x"]);
    assert_eq!(stand.ok(["health"]), "ok");
    stand.write("broken.db", "this is no database");
    assert_eq!(stand.run(["health", "--store", "sqlite:broken.db"]).code, 1);
    let ready = stand.run(["health", "--ready", "--store", "sqlite:flowfabric.db"]);
    assert!(ready.code == 2 && ready.err.contains("--ready is asked of a server"), "{ready:?}");
    let said = stand.run(["metrics"]);
    assert!(said.code == 2 && said.err.contains("--server"), "{said:?}");
}
