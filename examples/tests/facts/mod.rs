//! What must be true after each example.

use flowfabric::{Attempt, Fabric, FrameMode, PublicState, Run};
use serde_json::{Value, json};

use crate::Place;

/// The executions of a kind. Those of one millisecond come in any order.
async fn of_kind(fabric: &Fabric, kind: &str) -> Vec<Run> {
    let page = fabric.search().kind(kind).oldest_first().await.unwrap();
    page.executions.iter().map(|execution| fabric.run(execution.id)).collect()
}

async fn state(run: &Run) -> (&'static str, &'static str) {
    let execution = run.get().await.unwrap();
    (execution.public_state().word(), execution.reason().word())
}

fn outcomes(attempts: &[Attempt]) -> Vec<&'static str> {
    attempts.iter().map(|it| it.end.as_ref().map_or("running", |end| end.outcome.word())).collect()
}

/// The words after the colon of each line that begins with two blanks, up to the first that does not.
fn answers(said: &str) -> Vec<&str> {
    said.lines()
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| Some(line.rsplit_once(": ")?.1))
        .collect()
}

pub async fn a_deployment_needs_two_approvers_and_neither_is_the_requester(place: &Place) {
    let said = place.run("deploy-approval");
    let expected = [
        "ignored, own_request",
        "ignored, not_an_approver",
        "token_refused",
        "ignored, other_action",
        "counted",
        "ignored, same_source",
        "satisfied",
    ];
    assert_eq!(answers(&said), expected, "{said}");
    assert!(said.contains("it is suspended (waiting_for_approval) and holds no worker"), "{said}");
    assert!(!said.contains("v1."), "a token was shown: {said}");
    assert_eq!(said.matches("letters go to").count(), 1, "letters were sent again: {said}");

    let fabric = place.look().await;
    let [run] = &of_kind(&fabric, "deploy").await[..] else { panic!("{said}") };
    assert_eq!(run.result::<String>().await.unwrap(), "shop 2.0 is live, approved by ada and linus");
    assert_eq!(outcomes(&run.attempts().await.unwrap()), ["completed"]);
    let signals = run.signals().await.unwrap();
    let sources: Vec<_> = signals.iter().map(|it| it.source.as_deref().unwrap()).collect();
    assert_eq!(sources, ["ada", "linus"], "only what counts is kept");
    let steps: Vec<_> = run.steps().await.unwrap().iter().map(|it| it.key.to_string()).collect();
    assert_eq!(steps, ["approval", "ask", "approvals", "roll out"]);
}

pub async fn a_third_party_calls_back_at_once_later_or_never(place: &Place) {
    let said = place.run("external-callback");
    let expected = ["buffered", "duplicate", "satisfied", "terminal", "token_refused", "satisfied"];
    assert_eq!(answers(&said), expected, "{said}");
    assert!(said.contains("order 2: it is suspended (waiting_for_callback) and holds no worker"), "{said}");

    let fabric = place.look().await;
    let runs = of_kind(&fabric, "fulfil").await;
    let mut found = Vec::new();
    for run in &runs {
        assert_eq!(outcomes(&run.attempts().await.unwrap()), ["completed"]);
        found.push((run.result::<String>().await.unwrap(), run.signals().await.unwrap().len()));
    }
    let paid = |number| (format!("shipped, 1999 cents were paid (order-{number})"), 1);
    let late = ("put aside, the provider has not answered in time".to_owned(), 0);
    let mut expected = [paid(1), paid(2), late, paid(4)];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

pub async fn a_killed_workers_incident_is_handed_over_and_no_step_is_done_twice(place: &Place) {
    let said = place.run("incident-remediation");
    let seen: Vec<_> = said.lines().filter_map(|line| line.trim().split_once(", by process ")).collect();
    let steps: Vec<_> = seen.iter().map(|(step, _)| *step).collect();
    let runbook = ["take out of rotation", "drain connections", "restart", "put back"];
    assert_eq!(steps, runbook, "each was done once, in order: {said}");
    let (first, second) = (seen[0].1, seen[3].1);
    assert_eq!([seen[1].1, seen[2].1], [first, second], "{said}");
    assert_ne!(first, second, "{said}");

    let fabric = place.look().await;
    let [run] = &of_kind(&fabric, "remediate").await[..] else { panic!("{said}") };
    let attempts = run.attempts().await.unwrap();
    assert_eq!(outcomes(&attempts), ["lease_lost", "completed"]);
    let workers: Vec<_> = attempts.iter().map(|it| it.worker.as_str()).collect();
    assert_eq!(workers, ["on-call-1", "on-call-2"]);
    let steps = run.steps().await.unwrap();
    let recorded: Vec<_> = steps.iter().map(|it| (it.key.to_string(), it.attempt)).collect();
    let expected: Vec<_> = runbook.map(str::to_owned).into_iter().zip([1, 1, 2, 2]).collect();
    assert_eq!(recorded, expected);
}

/// The pauses between attempts.
fn pauses(attempts: &[Attempt]) -> Vec<i64> {
    attempts.windows(2).map(|pair| pair[1].started_at - pair[0].end.as_ref().unwrap().at).collect()
}

pub async fn failures_are_tried_again_as_their_class_says_and_cancels_reach_what_runs(place: &Place) {
    let said = place.run("retry-and-cancel");
    let fabric = place.look().await;

    let [one, other] = &of_kind(&fabric, "fetch").await[..] else { panic!("{said}") };
    let is_flaky = one.result::<String>().await.unwrap().starts_with("index.html");
    let (flaky, hopeless) = if is_flaky { (one, other) } else { (other, one) };
    assert_eq!(flaky.result::<String>().await.unwrap(), "index.html, at last");
    let attempts = flaky.attempts().await.unwrap();
    assert_eq!(outcomes(&attempts), ["failed", "failed", "failed", "completed"]);
    let pauses = pauses(&attempts);
    assert!(pauses.iter().zip([200, 400, 700]).all(|(pause, least)| *pause >= least), "{pauses:?}");
    let attempts = hopeless.attempts().await.unwrap();
    assert!(said.contains("fetch with 2 attempts: failed (attempts_exhausted)"), "{said}");
    let series: Vec<_> = attempts.iter().map(|it| it.series).collect();
    assert_eq!(series, [1, 1, 2, 2], "what is replayed keeps its old attempts");
    assert_eq!(outcomes(&attempts), ["failed", "failed", "failed", "completed"]);

    let [wrong] = &of_kind(&fabric, "parse").await[..] else { panic!("{said}") };
    assert_eq!(state(wrong).await, ("failed", "fatal_error"));
    assert_eq!(outcomes(&wrong.attempts().await.unwrap()), ["failed"]);

    let exports = of_kind(&fabric, "export").await;
    let mut attempts = Vec::new();
    for export in &exports {
        assert_eq!(state(export).await, ("cancelled", "cancelled_by_request"));
        attempts.push(outcomes(&export.attempts().await.unwrap()));
    }
    attempts.sort();
    assert_eq!(attempts, [vec![], vec!["cancelled"], vec!["cancelled"]]);
    assert!(said.contains("the export is asked to stop, and removes what it has written"), "{said}");
    let [import] = &of_kind(&fabric, "import").await[..] else { panic!("{said}") };
    assert_eq!(import.result::<u32>().await.unwrap(), 7, "what completes within the grace stands");
}

pub async fn a_film_goes_through_its_stages_and_is_seen_at_work(place: &Place) {
    let said = place.run("media-pipeline");
    let shown: Vec<_> = said.lines().filter_map(|line| line.trim().split_once(" | ")).collect();
    let fabric = place.look().await;
    for (kind, frames, summaries) in
        [("record", 24, 0), ("transcode", 24, 24), ("thumbnail", 12, 0), ("publish", 1, 0)]
    {
        let [run] = &of_kind(&fabric, kind).await[..] else { panic!("{said}") };
        assert_eq!(state(run).await.0, "completed");
        let (patches, plain): (Vec<_>, Vec<_>) =
            run.frames().await.unwrap().into_iter().partition(|it| it.mode == FrameMode::Summary);
        assert_eq!((plain.len(), patches.len()), (frames, summaries), "{kind}");
        let stored: Vec<_> = plain.iter().map(|it| (kind, String::from_utf8_lossy(&it.bytes))).collect();
        let shown: Vec<_> =
            shown.iter().filter(|(name, _)| *name == kind).map(|(_, line)| (kind, (*line).into())).collect();
        assert_eq!(shown, stored, "whoever watches sees every frame, in order");
    }
    let [packed] = &of_kind(&fabric, "transcode").await[..] else { panic!("{said}") };
    let document: Value =
        serde_json::from_str(packed.summary().await.unwrap().unwrap().document.get()).unwrap();
    assert_eq!(document, json!({ "pictures": 24, "bytes": 368 }));
    let [published] = &of_kind(&fabric, "publish").await[..] else { panic!("{said}") };
    let result: Value = published.result().await.unwrap();
    assert_eq!(result, json!({ "pictures": 24, "raw_bytes": 24 * 48 * 12, "packed_bytes": 368 }));
}

pub async fn the_first_answer_wins_and_losers_are_stopped_or_never_started(place: &Place) {
    let said = place.run("llm-race");
    assert!(said.contains("large answers: because air scatters"), "{said}");
    assert!(said.contains("small is stopped after"), "{said}");
    let fabric = place.look().await;
    let [answer] = &of_kind(&fabric, "answer").await[..] else { panic!("{said}") };
    assert_eq!(answer.result::<Value>().await.unwrap()["by"], "large");
    let flow = fabric.flow_run(answer.get().await.unwrap().flow().unwrap());
    assert_eq!(flow.state().await.unwrap().word(), "completed", "the failure of a model was absorbed");
    let lost = ("cancelled", "sibling_quorum_satisfied");
    for (name, expected, starts) in [
        ("small", lost, 1),
        ("medium", ("failed", "attempts_exhausted"), 1),
        ("large", ("completed", "succeeded"), 1),
        ("huge", lost, 0),
    ] {
        let run = flow.named(name).await.unwrap();
        assert_eq!(state(&run).await, expected, "{name}");
        assert_eq!(run.attempts().await.unwrap().len(), starts, "{name}");
        let words = run.frames().await.unwrap().len();
        let finished = run.get().await.unwrap().public_state() == PublicState::Completed;
        assert!(if finished { words == 11 } else { words < 11 }, "{name} said {words} words");
    }
}
