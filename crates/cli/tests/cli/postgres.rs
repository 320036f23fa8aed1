//! What PostgreSQL has of its own: migrating, submitting inside a transaction, and commands that are for files.

use ff_core::{ExecutionId, Route};

use crate::stand::Stand;

#[test]
fn a_schema_is_made_once_and_everything_is_in_order_afterwards() {
    let stand = Stand::on_postgres();
    let made = stand.json(["store", "migrate"]);
    assert_eq!(made["from"], 0);
    let again = stand.json(["store", "migrate"]);
    assert_eq!((&again["from"], &again["to"]), (&made["to"], &made["to"]));
    stand.submit(["x", "--count", "20", "--delay", "1h"]);
    let found = stand.json(["doctor"]);
    assert_eq!((&found["ok"], &found["executions"]), (&true.into(), &20.into()), "{found:#}");
}

#[test]
fn commands_for_files_say_so() {
    let stand = Stand::on_postgres();
    for args in [&["store", "backup", "copy.db"][..], &["store", "check"]] {
        let said = stand.run(args.iter().copied());
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("this command needs a file"), "{said:?}");
        assert!(!said.err.contains(&password()), "{said:?}");
    }
}

/// The one of the server that the tests share.
pub fn password() -> String {
    let url = ff_scratch::test_postgres().unwrap();
    let (user, _) = url.split_once('@').unwrap();
    user.rsplit_once(':').unwrap().1.to_owned()
}

#[test]
fn the_demonstration_plays_on_an_empty_database() {
    let stand = Stand::on_postgres();
    let shown = stand.json(["demo", "--here"]);
    assert_eq!((&shown["ok"], &shown["counts"]["submitted"]), (&true.into(), &283.into()), "{shown:#}");
    assert!(!shown.to_string().contains(&password()), "{shown:#}");
    assert_eq!(stand.stored(), 283);
    let again = stand.run(["demo", "--store", &stand.url()]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.err.contains("needs an empty store"), "{again:?}");
    assert_eq!(stand.json(["doctor"])["ok"], true);
}

#[test]
fn work_submitted_in_a_transaction_runs_if_that_commits() {
    let stand = Stand::on_postgres();
    stand.ok(["store", "migrate"]);
    let _worker = stand.worker(["--kind", "greet", "--exec", "cat"]);
    let greet = "SELECT flowfabric.submit('greet', '{\"name\": \"Ada\"}')";
    let undone = stand.sql(&format!("BEGIN; {greet}; ROLLBACK"));
    let done = stand.sql(&format!("BEGIN; {greet}; COMMIT"));
    let keyed = "SELECT flowfabric.submit('greet', '1', key => 'order-17')";
    let (first, second) = (stand.sql(keyed), stand.sql(keyed));
    let wrong = stand.sql("SELECT flowfabric.submit('greet', '2', options => '{\"priority\": 1000}')");
    // Rows of a partition are taken in order, those of others by themselves: this one says when all have been.
    until_taken(&stand);

    for id in [&done, &first] {
        assert_eq!(stand.run(["watch", id, "--timeout", "50s"]).code, 0, "{id}");
    }
    assert_eq!(stand.json(["get", &done])["result"].to_string(), "{\"name\":\"Ada\"}");
    for id in [&undone, &second, &wrong] {
        assert_eq!(stand.run(["get", id]).code, 3, "{id}");
    }
    assert_eq!(stand.stored(), 2);
    for id in [&first, &second] {
        let id: ExecutionId = id.parse().unwrap();
        assert_eq!(id.route(), Route::of_key("default", "order-17"));
    }

    let letters = &stand.json(["inbox", "list"])["dead_letters"];
    assert_eq!((letters.as_array().unwrap().len(), &letters[0]["id"]), (1, &wrong.as_str().into()));
    assert_eq!(letters[0]["reason"], "invalid: priority is 1000; allowed are -100 to 100");
    let table = stand.ok(["inbox", "list"]);
    assert!(table.contains("greet") && table.contains("allowed are -100 to 100"), "{table}");
    assert!(stand.ok(["doctor"]).contains("1 dead letters"), "the doctor counts them");

    // Tried again, it is as wrong as before; then it goes, and only events are left.
    let number = letters[0]["number"].to_string();
    assert_eq!(stand.json(["inbox", "repost", &number])["reposted"], true);
    until_taken(&stand);
    assert_eq!(
        stand.ok(["inbox", "drop", &number, "--cause", "ordered twice"]).trim(),
        format!("{number}  dropped")
    );
    assert_eq!(stand.json(["inbox", "list"])["dead_letters"].as_array().unwrap().len(), 0);
    let said = stand.run(["inbox", "drop", &number]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains(&format!("there is no dead letter {number}")), "{said:?}");
    let events = stand
        .sql("SELECT event || ' ' || (body ->> 'by') FROM flowfabric.events_view WHERE event LIKE 'letter%'");
    let told = ["letter_reposted", "letter_dropped"].iter().all(|it| events.contains(it));
    assert!(told && events.contains("ada") && events.contains("ordered twice"), "{events}");
}

/// Waits, by asking the database, until a server has taken every row.
fn until_taken(stand: &Stand) {
    while stand.sql("SELECT count(*) FROM flowfabric.inbox") != "0" {}
}
