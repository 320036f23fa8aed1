//! Suspensions, signals, waitpoints and tokens, as handlers and outsiders use them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowfabric::{
    Condition, Context, Digest, Distinct, Effect, Error, Fact, Ignored, Limits, Match, OnTimeout, Options,
    Reason, ResumedBy, Run, Start, TaskFailure, TokenText, WaitpointId, Worker,
};
use tokio::sync::mpsc;

use crate::background::{reaches, start};
use crate::ground::TestFabric;

const HOUR: Duration = Duration::from_secs(3600);

async fn suspended(run: &Run) {
    reaches(run, "suspended").await;
}

/// A worker whose handler asks for an approval and sends the token to whoever tests.
fn approvals(fabric: &TestFabric) -> (Worker, mpsc::UnboundedReceiver<(WaitpointId, TokenText)>) {
    let (mail, inbox) = mpsc::unbounded_channel();
    let worker = Worker::new(fabric).on("refund", move |ctx: Context, cents: u64| {
        let mail = mail.clone();
        async move {
            let approval = ctx
                .waitpoint("approval")
                .expires(HOUR)
                .action(format!("refund {cents}").as_bytes())
                .approvers(["ada", "grace"])
                .requester("grace")
                .await?;
            ctx.step("ask", async || {
                let _ = mail.send((approval.id(), approval.token().await?));
                Ok(())
            })
            .await?;
            let wait = approval.wait::<bool>().reason(Reason::WaitingForApproval);
            let approved = wait.await?;
            Ok((approved.payload, approved.source.unwrap()))
        }
    });
    (worker, inbox)
}

#[tokio::test]
async fn a_handler_that_waits_holds_no_worker_and_goes_on_with_the_signal() {
    let fabric = TestFabric::new().await;
    let calls = Arc::new(Mutex::new(0_u32));
    let worker = Worker::new(&fabric).concurrency(1).data(calls.clone()).on(
        "ship",
        |ctx: Context, n: u64| async move {
            *ctx.data::<Arc<Mutex<u32>>>()?.lock().unwrap() += 1;
            let paid = ctx.wait_for_signal::<u64>("paid").await?;
            Ok((n, paid.payload, paid.number, paid.source.unwrap(), ctx.attempt()))
        },
    );
    let running = start(worker);
    let first = fabric.submit("ship", &1).await.unwrap();
    let second = fabric.submit("ship", &2).await.unwrap();
    for run in [&first, &second] {
        suspended(run).await;
        assert_eq!(run.get().await.unwrap().reason().word(), "waiting_for_signal");
        assert!(run.get().await.unwrap().lease().is_none());
    }
    for (run, n) in [(&second, 2), (&first, 1)] {
        let sent = run.signal("paid").payload(&(n * 100)).source("bank").await.unwrap();
        assert_eq!((sent.effect, sent.number), (Effect::Satisfied, Some(1)));
        let result: (u64, u64, u32, String, u32) = run.result().await.unwrap();
        assert_eq!(result, (n, n * 100, 1, "bank".to_owned(), 1));
        assert_eq!(run.attempts().await.unwrap().len(), 1);
    }
    assert_eq!(*calls.lock().unwrap(), 4, "each handler is called before and after");
    running.stop().await;
}

#[tokio::test]
async fn signals_that_come_early_are_kept_and_handed_out_once_each() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("collect", |ctx: Context, (): ()| async move {
        let mut got = Vec::new();
        for _ in 0..3 {
            got.push(ctx.wait_for_signal::<u32>("part").await?.payload);
        }
        Ok(got)
    });
    let run = fabric.submit("collect", &()).await.unwrap();
    for n in [5, 6] {
        let send = || run.signal("part").payload(&n).idempotency_key(if n == 5 { "five" } else { "six" });
        assert_eq!(send().await.unwrap().effect, Effect::Buffered);
        assert_eq!(send().await.unwrap().effect, Effect::Duplicate);
    }
    let running = start(worker);
    suspended(&run).await;
    run.signal("part").payload(&7).await.unwrap();
    assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [5, 6, 7]);
    assert_eq!(run.signals().await.unwrap().len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn a_timeout_does_what_was_asked_for() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric)
        .on("option", |ctx: Context, (): ()| async move {
            let got = ctx.wait_for_signal::<()>("never").or_timeout(HOUR).await?;
            Ok(got.is_none())
        })
        .on("fail", |ctx: Context, (): ()| async move {
            ctx.wait_for_signal::<()>("never").timeout(HOUR).await?;
            Ok(())
        })
        .on("any", |ctx: Context, then: String| async move {
            let then = OnTimeout::from_word(&then).unwrap();
            let resumed = ctx.suspend(Condition::signal("never")?).timeout(HOUR, then).await?;
            Ok(resumed.by == ResumedBy::Timeout && resumed.signals.is_empty())
        });
    let running = start(worker);
    let option = fabric.submit("option", &()).await.unwrap();
    let fail = fabric.submit("fail", &()).await.unwrap();
    let mut others = Vec::new();
    for then in OnTimeout::ALL {
        others.push(fabric.submit("any", &then.word()).await.unwrap());
    }
    for run in others.iter().chain([&option, &fail]) {
        suspended(run).await;
    }
    fabric.advance(HOUR).await;
    assert!(option.result::<bool>().await.unwrap());
    let Error::NotCompleted(ending) = fail.result::<()>().await.unwrap_err() else { panic!() };
    assert_eq!((ending.state.word(), ending.reason.word()), ("failed", "suspension_timed_out"));
    for (run, then) in others.iter().zip(OnTimeout::ALL) {
        let (state, reason) = match then {
            OnTimeout::Fail => ("failed", "suspension_timed_out"),
            OnTimeout::Cancel => ("cancelled", "suspension_timed_out"),
            OnTimeout::Expire => ("expired", "suspension_timed_out"),
            OnTimeout::Resume => {
                assert!(run.result::<bool>().await.unwrap());
                continue;
            }
            OnTimeout::Escalate => ("suspended", "operator_review"),
        };
        let execution = run.get().await.unwrap();
        assert_eq!((execution.public_state().word(), execution.reason().word()), (state, reason));
    }
    running.stop().await;
}

#[tokio::test]
async fn an_operator_ends_any_suspension() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric)
        .on("review", |ctx: Context, (): ()| async move {
            let resumed = ctx.suspend(Condition::Operator).reason(Reason::OperatorReview).await?;
            Ok(resumed.by.word())
        })
        .on("wait", |ctx: Context, (): ()| async move {
            ctx.wait_for_signal::<()>("never").await?;
            Ok(())
        });
    let running = start(worker);
    let review = fabric.submit("review", &()).await.unwrap();
    let wait = fabric.submit("wait", &()).await.unwrap();
    for run in [&review, &wait] {
        suspended(run).await;
        run.resume().actor("ada").cause("looked at it").await.unwrap();
    }
    assert_eq!(review.result::<String>().await.unwrap(), "operator");
    let Error::NotCompleted(ending) = wait.result::<()>().await.unwrap_err() else { panic!() };
    assert_eq!(ending.error.unwrap().code.as_deref(), Some("resumed_by_operator"));
    assert_eq!(review.resume().await.unwrap_err().code(), "not_suspended");
    running.stop().await;
}

#[tokio::test]
async fn a_count_of_sources_takes_two_different_people() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("launch", |ctx: Context, (): ()| async move {
        let of = vec![Match::named("go".parse()?)];
        let resumed = ctx.suspend(Condition::Count { n: 2, distinct: Distinct::Sources, of }).await?;
        Ok(resumed.signals.iter().map(|it| it.source.as_deref().unwrap().to_owned()).collect::<Vec<_>>())
    });
    let running = start(worker);
    let run = fabric.submit("launch", &()).await.unwrap();
    suspended(&run).await;
    for (source, effect) in [("ada", Effect::Counted), ("ada", Effect::Counted), ("grace", Effect::Satisfied)]
    {
        assert_eq!(run.signal("go").source(source).await.unwrap().effect, effect);
    }
    assert_eq!(run.result::<Vec<String>>().await.unwrap(), ["ada", "grace"]);
    running.stop().await;
}

#[tokio::test]
async fn a_token_opens_its_waitpoint_and_every_other_one_gets_the_same_answer() {
    let fabric = TestFabric::new().await;
    let (worker, mut inbox) = approvals(&fabric);
    let running = start(worker);
    let run = fabric.submit("refund", &500).await.unwrap();
    let other = fabric.submit("refund", &600).await.unwrap();
    let (first, second) = (inbox.recv().await.unwrap(), inbox.recv().await.unwrap());
    let ((id, token), (_, foreign)) =
        if first.0.execution == run.id() { (first, second) } else { (second, first) };
    suspended(&run).await;
    suspended(&other).await;
    let good = token.reveal();
    let (head, mac) = good.rsplit_once('.').unwrap();
    let (foreign_head, foreign_mac) = foreign.reveal().rsplit_once('.').unwrap();
    let flipped = if mac.starts_with('0') { "1" } else { "0" };
    let wrong = [
        String::new(),
        "a token".to_owned(),
        good[1..].to_owned(),
        good.to_uppercase(),
        format!("{head}.{flipped}{}", &mac[1..]),
        format!("{head}.{foreign_mac}"),
        format!("{foreign_head}.{mac}"),
        good.replacen("v1.1.", "v1.2.", 1),
        format!("{}-9.{mac}", head.rsplit_once('-').unwrap().0),
    ];
    for text in &wrong {
        let error = fabric.signal_with_token(text).payload(&true).source("ada").await.unwrap_err();
        assert_eq!((error.code(), error.to_string()), ("token_refused", refusal()), "{text}");
    }
    assert!(run.signals().await.unwrap().is_empty(), "nothing was stored");
    let signal = |source: &'static str| fabric.signal_with_token(good).payload(&true).source(source);
    let cases = [
        (signal("eve"), Effect::Ignored(Ignored::NotAnApprover)),
        (signal("grace"), Effect::Ignored(Ignored::OwnRequest)),
        (signal("ada").action(b"refund 5000"), Effect::Ignored(Ignored::OtherAction)),
        (signal("ada").action(b"refund 500"), Effect::Satisfied),
    ];
    for (call, effect) in cases {
        assert_eq!(call.await.unwrap().effect, effect);
    }
    assert_eq!(run.result::<(bool, String)>().await.unwrap(), (true, "ada".to_owned()));
    // Replayed after the end, it says no more than that it is over.
    assert_eq!(signal("ada").await.unwrap_err().code(), "terminal");
    assert_eq!(fabric.issue_token(id).await.unwrap_err().code(), "not_found");
    // The other one expires.
    fabric.advance(HOUR).await;
    let late = fabric.signal_with_token(foreign.reveal()).payload(&true).source("ada").await.unwrap_err();
    assert_eq!((late.code(), late.to_string()), ("token_refused", refusal()));
    running.stop().await;
}

fn refusal() -> String {
    flowfabric::Rejection::TokenRefused.to_string()
}

#[tokio::test]
async fn tokens_of_an_older_key_are_good_for_the_grace_and_no_longer() {
    let fabric = TestFabric::new().await;
    let (worker, mut inbox) = approvals(&fabric);
    let running = start(worker);
    let run = fabric.submit("refund", &500).await.unwrap();
    let (id, old) = inbox.recv().await.unwrap();
    suspended(&run).await;
    let minute = Duration::from_secs(60);
    let key = fabric.rotate_key(minute, "ada", "quarterly").await.unwrap();
    assert_eq!((key.id, fabric.keys().await.unwrap().len()), (2, 2));
    let new = fabric.issue_token(id).await.unwrap().token;
    assert_ne!(old, new);
    let ignored = Effect::Ignored(Ignored::NotAnApprover);
    for token in [&old, &new] {
        assert_eq!(fabric.signal_with_token(token.reveal()).source("eve").await.unwrap().effect, ignored);
    }
    fabric.advance(minute).await;
    let error = fabric.signal_with_token(old.reveal()).source("eve").await.unwrap_err();
    assert_eq!(error.code(), "token_refused");
    assert_eq!(fabric.signal_with_token(new.reveal()).source("eve").await.unwrap().effect, ignored);
    running.stop().await;
}

#[tokio::test]
async fn neither_tokens_nor_secrets_are_in_events_lists_records_or_what_prints() {
    let fabric = TestFabric::new().await;
    let (worker, mut inbox) = approvals(&fabric);
    let running = start(worker);
    let run = fabric.submit("refund", &500).await.unwrap();
    let (id, token) = inbox.recv().await.unwrap();
    suspended(&run).await;
    fabric.rotate_key(HOUR, "ada", "quarterly").await.unwrap();
    let waitpoints = fabric.waitpoints().await.unwrap();
    assert_eq!(waitpoints.waitpoints[0].digest, Some(Digest::of(b"refund 500")));
    let call = fabric.signal_with_token(token.reveal()).payload(&true).source("ada");
    let mut printed = format!("{call:?} {:?} {:?}", fabric.issue_token(id).await.unwrap(), waitpoints);
    call.await.unwrap();
    run.result::<(bool, String)>().await.unwrap();
    let mut events = fabric.events(Default::default(), Start::Beginning).await.unwrap();
    loop {
        let seen = events.next().await.unwrap();
        printed += &format!("{} {:?}", serde_json::to_string(&seen.event).unwrap(), seen.event);
        if matches!(seen.event.fact, Fact::WaitpointOpened { .. }) {
            assert!(printed.contains(&token.fingerprint()));
        }
        if seen.event.fact.ends() {
            break;
        }
    }
    printed += &format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        run.get().await.unwrap(),
        run.steps().await.unwrap(),
        run.signals().await.unwrap(),
        run.explain().await.unwrap(),
        fabric.keys().await.unwrap(),
        fabric.local_engine().signing_keys().await.unwrap(),
    );
    let mac = token.reveal().rsplit_once('.').unwrap().1;
    assert!(!printed.contains(mac), "a token is in {printed}");
    for key in fabric.local_engine().signing_keys().await.unwrap() {
        assert!(!printed.contains(&String::from(key.secret)), "a secret is in {printed}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_inbox_is_searched_by_what_people_know() {
    let fabric = TestFabric::with(Options::new().partitions(3)).await.unwrap();
    let (worker, _inbox) = approvals(&fabric);
    let running = start(worker);
    let mut runs = Vec::new();
    for cents in 0..5_u64 {
        runs.push(fabric.submit("refund", &cents).await.unwrap());
    }
    for run in &runs {
        suspended(run).await;
    }
    let mut found = Vec::new();
    let mut list =
        fabric.waitpoints().name("approval").kind("refund").reason(Reason::WaitingForApproval).limit(2);
    loop {
        let page = list.clone().await.unwrap();
        found.extend(page.waitpoints.iter().map(|it| it.id.execution));
        match page.next {
            Some(next) => list = list.after(next),
            None => break,
        }
    }
    let mut wanted: Vec<_> = runs.iter().map(Run::id).collect();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted);
    assert!(fabric.waitpoints().name("other").await.unwrap().waitpoints.is_empty());
    assert_eq!(fabric.waitpoints().execution(runs[0].id()).await.unwrap().waitpoints.len(), 1);
    assert_eq!(fabric.waitpoints().name("").await.unwrap_err().field(), Some("name"));
    running.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_its_field_and_stores_nothing() {
    let limits = Limits { signals_max: 2, ..Limits::default() };
    let fabric = TestFabric::with(Options::new().limits(limits)).await.unwrap();
    let worker = Worker::new(&fabric)
        .on("impossible", |ctx: Context, which: String| async move {
            let condition = match &*which {
                "closed" => Condition::Signal(Match::waitpoint(7)),
                "child" => Condition::Child(ctx.id()),
                "nothing" => Condition::AllOf(Vec::new()),
                _ => (0..4).fold(Condition::signal("x")?, |inner, _| Condition::AnyOf(vec![inner])),
            };
            ctx.suspend(condition).await?;
            Ok(())
        })
        .on("alone", |ctx: Context, (): ()| async move {
            ctx.waitpoint("approval").approvers(["ada"]).requester("ada").await?;
            Ok::<_, TaskFailure>(())
        });
    let running = start(worker);
    let never = "condition can never be met: it asks for a waitpoint that is closed or was never opened, for a child \
                 that was never started, or for more approvals than there are approvers";
    let cases = [
        ("impossible", "closed", never),
        ("impossible", "child", never),
        (
            "impossible",
            "nothing",
            "condition has an all_of or any_of of nothing; give at least one condition",
        ),
        ("impossible", "deep", "condition is nested deeper than 4"),
        ("alone", "", "approvers has nobody but the requester, who may not approve"),
    ];
    for (kind, which, message) in cases {
        let run = match kind {
            "alone" => fabric.submit(kind, &()).await.unwrap(),
            _ => fabric.submit(kind, which).await.unwrap(),
        };
        let Error::NotCompleted(ending) = run.result::<()>().await.unwrap_err() else { panic!() };
        let error = ending.error.unwrap();
        assert_eq!((error.code.as_deref(), &*error.message), (Some("invalid"), message));
    }
    let run = fabric.submit("elsewhere", &()).await.unwrap();
    let error = run.signal("x").payload(&"x".repeat(70_000)).await.unwrap_err();
    assert_eq!(error.to_string(), "payload has 70002 bytes; allowed are at most 65536");
    assert_eq!(run.signal("two words").await.unwrap_err().field(), Some("name"));
    assert_eq!(run.signal("x").source("").await.unwrap_err().field(), Some("source"));
    assert!(run.signals().await.unwrap().is_empty());
    for _ in 0..2 {
        run.signal("x").await.unwrap();
    }
    assert_eq!(run.signal("x").await.unwrap_err().code(), "too_many_signals");
    run.cancel().await.unwrap();
    assert_eq!(run.signal("x").await.unwrap_err().code(), "terminal");
    running.stop().await;
}

#[tokio::test]
async fn a_signal_that_carries_something_else_is_named() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("ship", |ctx: Context, (): ()| async move {
        Ok(ctx.wait_for_signal::<u64>("paid").await?.payload)
    });
    let running = start(worker);
    let run = fabric.submit("ship", &()).await.unwrap();
    run.signal("paid").payload(&"much").await.unwrap();
    let Error::NotCompleted(ending) = run.result::<u64>().await.unwrap_err() else { panic!() };
    let error = ending.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("bad_signal"));
    assert!(
        error.message.starts_with("signal 1 (paid) does not carry a u64: invalid type: string"),
        "{error:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn waits_side_by_side_are_waited_for_one_after_the_other() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("both", |ctx: Context, (): ()| async move {
        let (a, b) = (ctx.wait_for_signal::<u32>("a"), ctx.wait_for_signal::<u32>("b"));
        let (a, b) = tokio::join!(a.into_future(), b.into_future());
        Ok(a?.payload + b?.payload)
    });
    let running = start(worker);
    let run = fabric.submit("both", &()).await.unwrap();
    run.signal("b").payload(&2).await.unwrap();
    suspended(&run).await;
    run.signal("a").payload(&1).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    running.stop().await;
}
