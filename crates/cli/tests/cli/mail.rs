//! Waitpoints, signals, keys, steps and output on the command line.

use std::time::Duration;

use flowfabric::{Context, Fabric, Reason, Worker};
use tokio::runtime::Runtime;

use crate::stand::{Stand, on_every_store};

const NOBODY: &str = "0197f3a2-6f3e-7c41-9b1d-0242ac120002";

on_every_store! {
    an_approval_is_found_shown_and_granted,
    a_wrong_token_gets_one_answer_and_stores_nothing,
    signals_are_sent_by_name_and_what_does_not_fit_is_refused,
    signals_carry_what_a_file_or_the_standard_input_holds,
    output_and_steps_are_shown,
    keys_rotate_and_show_no_secret,
    a_suspension_is_ended_by_hand,
}

/// Runs `refund` in this process until the work is suspended or has ended, on the store that the binary uses.
fn work(stand: &Stand, id: &str) {
    let id = id.parse().unwrap();
    Runtime::new().unwrap().block_on(async {
        let fabric: Fabric = flowfabric::connect(&stand.url()).await.unwrap();
        let worker = Worker::new(&fabric).on("refund", |ctx: Context, (): ()| async move {
            let approval = ctx.waitpoint("approval").action(b"refund").approvers(["grace"]).requester("eve");
            let approval = approval.expires(Duration::from_secs(3600)).await?;
            ctx.step("ask", async || {
                ctx.emit("line", "asked").await?;
                ctx.summary(&serde_json::json!({ "asked": true })).await?;
                Ok("mail sent".to_owned())
            })
            .await?;
            let approved = approval.wait::<bool>().reason(Reason::WaitingForApproval).await?;
            Ok(approved.payload)
        });
        let run = fabric.run(id);
        let mut states = run.watch().await.unwrap();
        let parked = async {
            while let Some(it) = states.next().await.unwrap() {
                if it.public_state().word() == "suspended" {
                    break;
                }
            }
        };
        worker.run_until(parked).await.unwrap();
        fabric.shutdown(Duration::from_secs(5)).await;
    });
}

fn suspended(stand: &Stand) -> (String, String) {
    let id = stand.submit(["refund", "--input", "null"]);
    work(stand, &id);
    let waitpoint = format!("{id}-1");
    (id, waitpoint)
}

fn an_approval_is_found_shown_and_granted(stand: &Stand) {
    let (id, waitpoint) = suspended(stand);
    let list = stand.json(["waitpoint", "list", "--name", "approval", "--reason", "waiting_for_approval"]);
    assert_eq!(list["waitpoints"][0]["waitpoint"], *waitpoint);
    assert!(stand.ok(["waitpoint", "list"]).contains("waiting_for_approval"));
    assert_eq!(
        stand.json(["waitpoint", "list", "--kind", "other"])["waitpoints"].as_array().unwrap().len(),
        0
    );
    let shown = stand.ok(["waitpoint", "show", &waitpoint]);
    assert!(shown.contains("grace") && shown.contains("eve") && shown.contains("action"), "{shown}");
    let token = stand.ok(["waitpoint", "show", &waitpoint, "--token"]);
    assert_eq!(stand.json(["waitpoint", "show", &waitpoint, "--token"])["token"], *token);
    stand.ok(["waitpoint", "show", &waitpoint, "--token", "--actor", "bob", "--cause", "the mail was lost"]);
    let tail = ["tail", "--from", "beginning", "--timeout", "2s", "--execution", &id, "--family", "signal"];
    let events = stand.ok(tail.into_iter().chain(["--json"]));
    let issued = events.lines().rfind(|line| line.contains("waitpoint_token_issued")).unwrap();
    assert!(issued.contains("\"bob\"") && issued.contains("the mail was lost"), "{issued}");
    let said = stand.run(["waitpoint", "show", &waitpoint, "--cause", "why"]);
    assert!(said.code == 2 && said.err.contains("go with --token"), "{said:?}");

    let got = stand.json(["get", &id]);
    assert_eq!(
        (&got["reason"], &got["waitpoints"][0]["name"]),
        (&"waiting_for_approval".into(), &"approval".into())
    );
    assert!(stand.ok(["get", &id]).contains("steps") && stand.ok(["explain", &id]).contains("suspension"));

    let own = stand.run(["signal", "--token", &token, "--source", "eve"]);
    assert_eq!(own.code, 4, "{own:?}");
    assert!(own.out.contains("ignored (not_an_approver)"), "{own:?}");
    let signal = ["signal", "--token", &token, "--payload", "true", "--source", "grace"];
    assert_eq!(stand.json(signal)["effect"], "satisfied");
    work(stand, &id);
    assert_eq!(stand.json(["get", &id])["result"], true);
    assert_eq!(stand.run(["waitpoint", "show", &waitpoint]).code, 3);
    assert_eq!(stand.run(["waitpoint", "show", &waitpoint, "--token"]).code, 3);

    // A token is printed where it is asked for, and nowhere else.
    let mac = token.rsplit_once('.').unwrap().1;
    for command in [
        vec!["get", &id],
        vec!["get", &id, "--json"],
        vec!["steps", &id, "--json"],
        vec!["stream", &id, "--json"],
        vec!["explain", &id, "--json"],
        vec!["key", "list", "--json"],
        vec!["--log", "trace", "tail", "--from", "beginning", "--limit", "8", "--timeout", "5s", "--json"],
    ] {
        let said = stand.run(command.iter().copied());
        assert!(!said.out.contains(mac) && !said.err.contains(mac), "{command:?}");
    }
}

fn a_wrong_token_gets_one_answer_and_stores_nothing(stand: &Stand) {
    let (id, waitpoint) = suspended(stand);
    let token = stand.ok(["waitpoint", "show", &waitpoint, "--token"]);
    let (head, mac) = token.rsplit_once('.').unwrap();
    let flipped = if mac.starts_with('0') { "1" } else { "0" };
    let wrong = [
        "nonsense".to_owned(),
        format!("{head}.{flipped}{}", &mac[1..]),
        token.replacen("v1.1.", "v1.7.", 1),
        token.replacen(&id, NOBODY, 1),
        format!("v1.1.{id}-2.{mac}"),
    ];
    let mut answers: Vec<(i32, String)> = Vec::new();
    for token in &wrong {
        let said = stand.run(["signal", "--token", token, "--source", "grace"]);
        assert!(!said.err.contains(mac), "{said:?}");
        answers.push((said.code, said.err));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].0, 4);
    assert_eq!(stand.json(["get", &id])["state"], "suspended");
}

fn signals_are_sent_by_name_and_what_does_not_fit_is_refused(stand: &Stand) {
    let id = stand.submit(["elsewhere"]);
    let send = ["signal", &id, "--name", "paid", "--payload", "500", "--key", "transfer-1"];
    assert_eq!(stand.json(send)["effect"], "buffered");
    assert_eq!(stand.json(send)["effect"], "duplicate");
    let kept = stand.json(["signals", &id]);
    assert_eq!((&kept["signals"][0]["payload"], kept["signals"].as_array().unwrap().len()), (&500.into(), 1));
    assert!(stand.ok(["signals", &id]).contains("paid"));
    assert_eq!(stand.run(["signals", NOBODY]).code, 3);
    let large = format!("\"{}\"", "x".repeat(70_000));
    let bad: [(Vec<&str>, i32, &str); 7] = [
        (vec!["signal", &id], 2, "--name is missing"),
        (vec!["signal", "--name", "paid"], 2, "required"),
        (
            vec!["signal", "no-id", "--name", "paid"],
            2,
            "neither the id of an execution nor that of a waitpoint",
        ),
        (vec!["signal", &id, "--name", "two words"], 2, "name contains ' '"),
        (vec!["signal", &id, "--name", "paid", "--payload", "{"], 2, "payload is not JSON"),
        (vec!["signal", &id, "--name", "paid", "--payload", &large], 2, "allowed are at most 65536"),
        (vec!["signal", NOBODY, "--name", "paid"], 3, "there is no execution"),
    ];
    for (command, code, text) in bad {
        let said = stand.run(command.iter().copied());
        assert_eq!(said.code, code, "{said:?}");
        assert!(said.err.contains(text), "{said:?}");
    }
    stand.ok(["cancel", &id]);
    assert_eq!(stand.run(["signal", &id, "--name", "paid"]).code, 4);
}

fn signals_carry_what_a_file_or_the_standard_input_holds(stand: &Stand) {
    let id = stand.submit(["elsewhere"]);
    let send = |args: &[&str]| stand.run(["signal", &id, "--name", "paid"].iter().chain(args).copied());
    stand.write("paid.json", "{\"cents\":500}");
    assert_eq!(send(&["--payload", "-5"]).code, 0);
    assert_eq!(send(&["--payload-file", "paid.json"]).code, 0);
    let piped =
        format!("printf 'a;b' | $FF signal {id} --name paid --payload-file - --content-type text/csv");
    assert_eq!(stand.shell(&piped).code, 0);
    let kept = stand.json(["signals", &id]);
    let payloads: Vec<_> = kept["signals"].as_array().unwrap().iter().map(|it| &it["payload"]).collect();
    let csv = serde_json::json!({ "content_type": "text/csv", "text": "a;b" });
    assert_eq!(payloads, [&(-5).into(), &serde_json::json!({ "cents": 500 }), &csv]);
    stand.write("large.json", format!("\"{}\"", "x".repeat(70_000)));
    for (args, text) in [
        (&["--payload-file", "none.json"][..], "payload-file: cannot read none.json"),
        (&["--payload-file", "large.json"], "allowed are at most 65536"),
        (&["--payload-file", "paid.json", "--payload", "1"], "cannot be used with"),
        (&["--payload", "a;b"], "give --content-type text/plain"),
    ] {
        let said = send(args);
        assert!(said.code == 2 && said.err.contains(text), "{said:?}");
    }
}

fn output_and_steps_are_shown(stand: &Stand) {
    let (id, _) = suspended(stand);
    assert!(stand.ok(["stream", &id]).starts_with("1:1  line  asked"));
    assert_eq!(stand.ok(["stream", &id, "--after", "1:2"]), "");
    let lines = stand.ok(["stream", &id, "--json"]);
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["text"], &first["place"]), (&"asked".into(), &"1:1".into()));
    assert_eq!(stand.json(["stream", &id, "--summary"])["document"]["asked"], true);
    let steps = stand.json(["steps", &id]);
    assert_eq!(
        (&steps["steps"][1]["name"], &steps["steps"][1]["result"]),
        (&"ask".into(), &"mail sent".into())
    );
    assert!(stand.ok(["steps", &id]).contains("waitpoint"));
    let followed = stand.ok(["stream", &id, "--follow", "--timeout", "10ms"]);
    assert!(followed.is_empty() || followed.contains("asked"), "{followed}");
    assert_eq!(stand.run(["stream", &id, "--after", "x"]).code, 2);
    assert_eq!(stand.run(["stream", NOBODY]).code, 3);
    assert_eq!(stand.run(["steps", NOBODY]).code, 3);
}

fn keys_rotate_and_show_no_secret(stand: &Stand) {
    let (_, waitpoint) = suspended(stand);
    let old = stand.ok(["waitpoint", "show", &waitpoint, "--token"]);
    assert_eq!(stand.json(["key", "rotate", "--grace", "0", "--cause", "a leak"])["key"], 2);
    // The old one is refused at once; how long it is still listed is the sweep's business.
    let keys = stand.json(["key", "list"]);
    let newest = keys["keys"].as_array().unwrap().last().unwrap().as_object().unwrap();
    assert_eq!((newest.len(), &newest["key"]), (3, &2.into()), "{keys}");
    assert_eq!(stand.run(["signal", "--token", &old, "--source", "grace"]).code, 4);
    let new = stand.ok(["waitpoint", "show", &waitpoint, "--token"]);
    assert_eq!(stand.json(["signal", "--token", &new, "--source", "grace"])["effect"], "satisfied");
    assert_eq!(stand.run(["key", "rotate", "--grace", "soon"]).code, 2);
    assert_eq!(stand.json(["key", "rotate", "--grace", "1h"])["key"], 3);
    let keys = stand.json(["key", "list"]);
    let listed: Vec<_> = keys["keys"].as_array().unwrap().iter().map(|it| &it["key"]).collect();
    assert!(listed.ends_with(&[&2.into(), &3.into()]), "{keys}");
}

fn a_suspension_is_ended_by_hand(stand: &Stand) {
    let (id, _) = suspended(stand);
    assert_eq!(stand.json(["resume", &id, "--cause", "by telephone"])["state"], "waiting");
    let said = stand.run(["resume", &id]);
    assert_eq!(said.code, 4, "{said:?}");
}
