//! `store copy`: a store moves to another kind and back, with what is under way.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::stand::{Background, Server, Stand};

/// Runs until the file `go` is there.
const WAITS: &str = "while ! [ -e go ]; do sleep 0.05; done; cat";

/// An address that stays while one server goes and another comes. A port that no server has meanwhile could be taken by
/// anybody.
struct Door {
    url: String,
    behind: Arc<Mutex<SocketAddr>>,
}

impl Door {
    fn before(server: &Server) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let behind = Arc::new(Mutex::new(address(server)));
        let target = behind.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let target = *target.lock().unwrap();
                // While no server is there, whoever comes is turned away.
                if let Ok(server) = TcpStream::connect(target) {
                    carry(&client, &server);
                    carry(&server, &client);
                }
            }
        });
        Door { url, behind }
    }

    fn leads_to(&self, server: &Server) {
        *self.behind.lock().unwrap() = address(server);
    }
}

fn address(server: &Server) -> SocketAddr {
    server.url.trim_start_matches("http://").parse().unwrap()
}

/// Carries what one side says to the other; when it ends, both are closed.
fn carry(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        for side in [from, to] {
            let _ = side.shutdown(std::net::Shutdown::Both);
        }
    });
}

#[track_caller]
fn through<'a>(server: &'a Server, stand: &Stand, args: impl IntoIterator<Item = &'a str>) -> Value {
    let all = ["--json", "--server", &server.url].into_iter().chain(args);
    let out = stand.ok(all);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// How many events there are; all of them can be read.
fn events(stand: &Stand, store: &str, copied: &Value) -> u64 {
    let count = copied["copied"]["events"].as_u64().unwrap();
    let limit = count.to_string();
    let lines = stand.ok(["--json", "--store", store, "tail", "--from", "beginning", "--limit", &limit]);
    assert_eq!(lines.lines().count() as u64, count);
    count
}

#[test]
fn a_store_moves_to_a_database_and_back_while_a_worker_runs() {
    let (stand, database) = (Stand::new(), Stand::on_postgres());
    let server = stand.serve([]);
    let door = Door::before(&server);
    let mut command = stand.command(["--server", &door.url, "worker", "--kind", "slow", "--exec", WAITS]);
    let worker: Background = command
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
        .into();
    let slow =
        through(&server, &stand, ["submit", "slow", "--input", "[7]"])["id"].as_str().unwrap().to_owned();
    while through(&server, &stand, ["get", &slow])["state"] != "active" {}
    let waits = through(&server, &stand, ["submit", "later", "--key", "k-1", "--delay", "1h"])["id"].clone();
    through(&server, &stand, ["lane", "pause", "quiet"]);
    stand.write("trip.yaml", "kind: trip\nnodes:\n  a: {kind: none}\n  b: {kind: none, after: a}\n");
    through(&server, &stand, ["flow", "submit", "trip.yaml"]);
    let made = through(&server, &stand, ["token", "create", "ci", "--role", "viewer"]);
    for to in [database.url(), "sqlite:new.db".to_owned()] {
        let busy = stand.run(["store", "copy", &to]);
        assert_eq!(busy.code, 4, "{busy:?}");
        assert!(busy.err.contains("1 processes work on the store that is to be copied"), "{busy:?}");
    }
    assert!(!stand.path("new.db").exists(), "nothing is made for a store that cannot be copied");
    server.process.terminate();

    let copied = stand.json(["store", "copy", &database.url()]);
    assert_eq!(
        (&copied["copied"]["executions"], &copied["copied"]["flows"]),
        (&4.into(), &1.into()),
        "{copied}"
    );
    assert_eq!(database.json(["doctor"])["ok"], true);
    let migrated = database.json(["store", "migrate"]);
    assert_eq!(migrated["from"], migrated["to"], "the copy has the newest schema: {migrated}");

    // The worker has lost nobody but a server; the next one has what it works on.
    let server = stand.serve(["--store", &database.url()]);
    door.leads_to(&server);
    stand.write("go", "");
    stand.ok(["--server", &server.url, "watch", &slow, "--timeout", "50s"]);
    let ended = through(&server, &stand, ["get", &slow]);
    assert_eq!((&ended["result"].to_string()[..], &ended["attempt"]), ("[7]", &1.into()), "{ended:#}");
    let again = through(&server, &stand, ["submit", "later", "--key", "k-1", "--delay", "1h"]);
    assert_eq!((&again["id"], &again["existing"]), (&waits, &true.into()), "{again}");
    let lanes = through(&server, &stand, ["lane", "list"]);
    let quiet = lanes["lanes"].as_array().unwrap().iter().find(|it| it["name"] == "quiet");
    assert_eq!(quiet.map(|it| &it["mode"]), Some(&"paused".into()), "{lanes}");
    assert_eq!(through(&server, &stand, ["token", "list"])["tokens"][0]["id"], made["token"]["id"]);
    drop(worker);
    server.process.terminate();

    let back = format!("sqlite:{}", stand.path("back.db").display());
    let returned = stand.json(["--store", &database.url(), "store", "copy", &back]);
    assert_eq!(returned["copied"]["executions"], 4);
    assert!(!returned.to_string().contains(&crate::postgres::password()), "{returned}");
    assert_eq!(stand.json(["--store", &back, "doctor"])["ok"], true);
    assert_eq!(stand.json(["--store", &back, "get", &slow])["result"].to_string(), "[7]");
    assert!(events(&stand, &back, &returned) > events(&stand, &database.url(), &copied));
    let said = stand.ok(["--store", &back, "store", "copy", "sqlite:third.db"]);
    assert!(said.starts_with("4 executions, 1 flows, "), "{said}");
    assert!(said.ends_with("is as it was"), "{said}");
}

#[test]
fn what_cannot_be_copied_or_copied_into_says_why() {
    let stand = Stand::new();
    stand.submit(["x"]);
    stand.write("taken.db", "");
    let cases = [
        (&["store", "copy", "sqlite:taken.db"][..], 2, "there is a file taken.db already"),
        (&["store", "copy", "memory:"], 2, "URL is \"memory:\"; allowed are sqlite:PATH and postgres://"),
        (&["store", "copy", "http://127.0.0.1:7400"], 2, "allowed are sqlite:PATH and postgres://"),
        (&["--store", "memory:", "store", "copy", "sqlite:new.db"], 2, "store is \"memory:\"; allowed are"),
        (&["--store", "sqlite:nobody.db", "store", "copy", "sqlite:new.db"], 3, "there is no file nobody.db"),
        (&["--server", "http://127.0.0.1:1", "store", "copy", "sqlite:new.db"], 2, "works on a store"),
        (&["store", "copy", "sqlite:new.db?partitions=0"], 2, "partitions is \"0\""),
        (&["store", "copy"], 2, "<URL>"),
    ];
    for (args, code, text) in cases {
        let said = stand.run(args.iter().copied());
        assert_eq!(said.code, code, "{args:?} {said:?}");
        assert!(said.err.contains(text), "{args:?} {said:?}");
        assert!(!stand.path("new.db").exists(), "{args:?}");
    }
    stand.ok(["store", "copy", "sqlite:new.db?partitions=4"]);
    assert_eq!(stand.json(["--store", "sqlite:new.db?partitions=4", "list", "--count"])["count"], 1);
    let said = stand.run(["--store", "sqlite:new.db?partitions=3", "list"]);
    assert!(said.err.contains("made with 4 partitions"), "{said:?}");
    let database = Stand::on_postgres();
    let said = stand.run(["--store", &database.url(), "store", "copy", "sqlite:nothing.db"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("there is nothing in the store"), "{said:?}");
    assert!(!stand.path("nothing.db").exists());
    let server = database.serve([]);
    let said = stand.run(["store", "copy", &database.url()]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("1 processes work on the store to copy into"), "{said:?}");
    server.process.terminate();
    database.submit(["x"]);
    let said = stand.run(["store", "copy", &database.url()]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("not empty") && said.err.contains("nothing was copied"), "{said:?}");
}
