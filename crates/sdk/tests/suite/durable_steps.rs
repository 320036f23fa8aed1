//! Steps, sleeps and children: what a handler that runs again does not do again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_store::{Clock, MemoryStore, SystemClock};
use flowfabric::{
    Condition, Context, Error, EventFilter, Fact, Fatal, Options, Retryable, Start, StepKind, Submission,
    TaskFailure, Worker,
};
use tokio::sync::oneshot;

use crate::background::{fixed, reaches, start};
use crate::ground::{TestFabric, on_store};

const SECOND: Duration = Duration::from_secs(1);

/// How often each piece of work was done.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<BTreeMap<String, u32>>>);

impl Done {
    fn note(&self, what: &str) -> u32 {
        let mut done = self.0.lock().unwrap();
        let count = done.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn counts(&self) -> Vec<(String, u32)> {
        self.0.lock().unwrap().clone().into_iter().collect()
    }
}

fn counts(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    expected.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect()
}

#[tokio::test]
async fn a_step_that_was_recorded_is_not_run_again_by_a_later_attempt() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let worker = Worker::new(&fabric).data(done.clone()).on("order", |ctx: Context, (): ()| async move {
        let done = ctx.data::<Done>()?;
        let first: u32 = ctx.step("charge", || async { Ok(done.note("charge")) }).await?;
        let second: u32 = ctx.step("charge", || async { Ok(done.note("charge") * 10) }).await?;
        if ctx.attempt() < 3 {
            return Err(Retryable("the printer is out of paper").into());
        }
        let third: String = ctx.step("print", || async { Ok(format!("{}", done.note("print"))) }).await?;
        Ok((first, second, third))
    });
    let running = start(worker);
    let run = fabric.submit("order", &()).attempts(3).backoff(fixed(Duration::ZERO)).await.unwrap();
    assert_eq!(run.result::<(u32, u32, String)>().await.unwrap(), (1, 20, "1".to_owned()));
    assert_eq!(done.counts(), counts(&[("charge", 2), ("print", 1)]));
    let steps: Vec<_> =
        run.steps().await.unwrap().iter().map(|it| (it.key.to_string(), it.kind, it.attempt)).collect();
    let step = |name: &str, attempt| (name.to_owned(), StepKind::Run, attempt);
    assert_eq!(steps, [step("charge", 1), step("charge #2", 1), step("print", 3)]);
    // A replay gets the recorded results, too.
    run.replay().await.unwrap();
    assert_eq!(run.result::<(u32, u32, String)>().await.unwrap(), (1, 20, "1".to_owned()));
    assert_eq!(done.counts(), counts(&[("charge", 2), ("print", 1)]));
    running.stop().await;
}

#[tokio::test]
async fn a_worker_that_dies_after_a_step_leaves_its_result_behind() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let (reached, at_the_end) = oneshot::channel();
    let reached = Mutex::new(Some(reached));
    let dying = Worker::new(&fabric).data(done.clone()).on("order", move |ctx: Context, (): ()| {
        let reached = reached.lock().unwrap().take();
        async move {
            let done = ctx.data::<Done>()?;
            ctx.step("charge", || async { Ok(done.note("charge")) }).await?;
            let _ = reached.unwrap().send(());
            std::future::pending::<Result<(), TaskFailure>>().await
        }
    });
    let dying = start(dying);
    let run = fabric.submit("order", &()).backoff(fixed(Duration::ZERO)).await.unwrap();
    at_the_end.await.unwrap();
    dying.kill().await;
    // Before anybody else can take it, so that no time passes for the next lease.
    fabric.advance(Duration::from_secs(60)).await;
    let next = Worker::new(&fabric).data(done.clone()).on("order", |ctx: Context, (): ()| async move {
        let done = ctx.data::<Done>()?;
        let charged: u32 = ctx.step("charge", || async { Ok(done.note("charge")) }).await?;
        Ok((ctx.attempt(), charged))
    });
    let next = start(next);
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (2, 1));
    assert_eq!(done.counts(), counts(&[("charge", 1)]));
    next.stop().await;
}

#[tokio::test]
async fn a_step_has_tries_of_its_own_and_fatal_ends_them() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let worker = Worker::new(&fabric)
        .data(done.clone())
        .on("flaky", |ctx: Context, good_from: u32| async move {
            let done = ctx.data::<Done>()?;
            let work = || async {
                match done.note("flaky") {
                    n if n >= good_from => Ok(n),
                    n => Err(Retryable(format!("try {n}")).into()),
                }
            };
            ctx.step("flaky", work).attempts(3).backoff(fixed(Duration::ZERO)).await
        })
        .on("fatal", |ctx: Context, (): ()| async move {
            let done = ctx.data::<Done>()?;
            let work = || async {
                done.note("fatal");
                Err::<(), _>(Fatal("no such account").code("no_account"))
            };
            ctx.step("fatal", work).attempts(3).await
        });
    let running = start(worker);
    let run = fabric.submit("flaky", &3).attempts(1).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    // The tries of a step are not the attempts of its execution.
    let run = fabric.submit("flaky", &100).attempts(1).await.unwrap();
    let Error::NotCompleted(ending) = run.result::<u32>().await.unwrap_err() else { panic!() };
    assert_eq!(&*ending.error.unwrap().message, "try 6");
    let run = fabric.submit("fatal", &()).attempts(5).await.unwrap();
    let Error::NotCompleted(ending) = run.result::<()>().await.unwrap_err() else { panic!() };
    assert_eq!(ending.error.unwrap().code.as_deref(), Some("no_account"));
    assert_eq!(done.counts(), counts(&[("fatal", 1), ("flaky", 6)]));
    running.stop().await;
}

#[tokio::test]
async fn steps_side_by_side_are_recorded_each_for_itself() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let worker = Worker::new(&fabric).data(done.clone()).on("both", |ctx: Context, (): ()| async move {
        let done = ctx.data::<Done>()?;
        let left = async { ctx.step("left", || async { Ok(done.note("left")) }).await };
        let right = async { ctx.step("right", || async { Ok(done.note("right")) }).await };
        let (left, right): (Result<u32, _>, Result<u32, _>) = tokio::join!(left, right);
        if ctx.attempt() == 1 {
            return Err(Retryable("again").into());
        }
        Ok((left?, right?))
    });
    let running = start(worker);
    let run = fabric.submit("both", &()).backoff(fixed(Duration::ZERO)).await.unwrap();
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 1));
    running.stop().await;
}

#[tokio::test]
async fn whoever_gives_the_lease_back_waits_for_steps_that_are_under_way() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let worker = Worker::new(&fabric).data(done.clone()).on("both", |ctx: Context, (): ()| async move {
        let done = ctx.data::<Done>()?;
        let step = ctx.step("work", || async {
            done.note("work begins");
            tokio::task::yield_now().await;
            Ok(done.note("work ends"))
        });
        let (worked, slept) = tokio::join!(step.into_future(), ctx.sleep(SECOND));
        slept?;
        worked
    });
    let running = start(worker);
    let run = fabric.submit("both", &()).await.unwrap();
    reaches(&run, "delayed").await;
    fabric.advance(SECOND * 2).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    assert_eq!(done.counts(), counts(&[("work begins", 1), ("work ends", 1)]));
    running.stop().await;
}

#[tokio::test]
async fn a_step_inside_a_step_and_a_record_of_another_type_are_refused() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric)
        .on("nested", |ctx: Context, (): ()| async move {
            let inner = ctx.clone();
            ctx.step("outer", || async move { inner.step("inner", || async { Ok(1) }).await }).await
        })
        .on("changed", |ctx: Context, (): ()| async move {
            if ctx.attempt() == 1 {
                ctx.step("price", || async { Ok("cheap".to_owned()) }).await?;
                return Err(Retryable("again").into());
            }
            ctx.step("price", || async { Ok(5_u64) }).await
        });
    let running = start(worker);
    let cases = [
        ("nested", "nested_step", "step inner is called inside step outer; call it before or after"),
        (
            "changed",
            "bad_step_result",
            "the recorded result of step price is not a u64: invalid type: string \
                                        \"cheap\", expected u64 at line 1 column 7",
        ),
    ];
    for (kind, code, message) in cases {
        let run = fabric.submit(kind, &()).backoff(fixed(Duration::ZERO)).await.unwrap();
        let Error::NotCompleted(ending) = run.result::<u64>().await.unwrap_err() else { panic!() };
        let error = ending.error.unwrap();
        assert_eq!((error.code.as_deref(), &*error.message), (Some(code), message));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_result_too_large_is_refused_and_named() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("large", |ctx: Context, size: usize| async move {
        ctx.step("read", || async move { Ok("x".repeat(size)) }).await.map(|text| text.len())
    });
    let running = start(worker);
    let run = fabric.submit("large", &(5 << 20)).await.unwrap();
    let Error::NotCompleted(ending) = run.result::<u64>().await.unwrap_err() else { panic!() };
    let error = ending.error.unwrap();
    let told = "result of step read has 5242882 bytes; allowed are at most 4194304";
    assert_eq!((error.code.as_deref(), &*error.message), (Some("invalid"), told));
    assert!(run.steps().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn steps_that_differ_from_the_record_are_tolerated_and_told_once_an_attempt() {
    let fabric = TestFabric::new().await;
    let mut events = fabric.events(EventFilter::default(), Start::Now).await.unwrap();
    let worker = Worker::new(&fabric).on("order", |ctx: Context, (): ()| async move {
        let names: &[&str] = match ctx.attempt() {
            1 => &["a", "b", "c"],
            2 => &["b", "a"],
            _ => &["b", "new", "a"],
        };
        for name in names {
            ctx.step(name, || async { Ok(1) }).await?;
        }
        if ctx.attempt() < 3 { Err(Retryable("again").into()) } else { Ok(()) }
    });
    let running = start(worker);
    let run = fabric.submit("order", &()).attempts(3).backoff(fixed(Duration::ZERO)).await.unwrap();
    run.result::<()>().await.unwrap();
    let mut told = Vec::new();
    loop {
        let seen = events.next().await.unwrap();
        let ends = seen.event.fact.ends();
        if let Fact::StepsDrifted { attempt, missing, extra, reordered } = &seen.event.fact {
            let words = |names: &[_]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            told.push((*attempt, [missing, extra, reordered].map(|it| words(it))));
        }
        if ends {
            break;
        }
    }
    let words = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    // The second attempt failed: whether it would have come to the third step is not known.
    let second = (2, [&[][..], &[], &["b"]].map(words));
    let third = (3, [&["c"][..], &["new"], &["b"]].map(words));
    assert_eq!(told, [second, third]);
    running.stop().await;
}

#[tokio::test]
async fn a_sleep_holds_no_worker_and_is_passed_once_it_is_over() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let worker =
        Worker::new(&fabric).concurrency(1).data(done.clone()).on("nap", |ctx: Context, n: u32| async move {
            let done = ctx.data::<Done>()?;
            done.note("called");
            ctx.sleep(SECOND * 3600).await?;
            ctx.sleep(SECOND * n).await?;
            Ok((done.note("rested"), ctx.attempt()))
        });
    let running = start(worker);
    let run = fabric.submit("nap", &60).await.unwrap();
    reaches(&run, "delayed").await;
    let sleeping = run.get().await.unwrap();
    assert_eq!((sleeping.public_state().word(), sleeping.reason().word()), ("delayed", "resume_delay"));
    assert!(sleeping.lease().is_none());
    // Woken after an hour, it sleeps on for a minute.
    fabric.advance(SECOND * 3600).await;
    while run.steps().await.unwrap().len() < 2 {
        fabric.settle().await;
    }
    reaches(&run, "delayed").await;
    fabric.advance(SECOND * 59).await;
    assert_eq!(run.get().await.unwrap().public_state().word(), "delayed");
    fabric.advance(SECOND).await;
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 1));
    assert_eq!(done.counts(), counts(&[("called", 3), ("rested", 1)]));
    assert_eq!(run.attempts().await.unwrap().len(), 1, "a sleep spends nothing");
    running.stop().await;
}

/// A clock that is wrong by so much.
#[derive(Debug)]
struct Off(i64);

impl Clock for Off {
    fn now(&self) -> i64 {
        SystemClock.now() + self.0
    }
}

#[tokio::test]
async fn a_sleep_counts_on_the_clock_of_the_store_however_wrong_that_of_the_worker_is() {
    const HOUR_MS: i64 = 3_600_000;
    for off in [HOUR_MS, -HOUR_MS] {
        let store = Arc::new(MemoryStore::with_clock(1, Arc::new(Off(off))));
        let fabric = on_store(store, Options::new()).await.unwrap();
        let running = start(Worker::new(&fabric).on("nap", |ctx: Context, (): ()| async move {
            ctx.sleep(Duration::from_millis(60)).await?;
            Ok(())
        }));
        let run = fabric.submit("nap", &()).await.unwrap();
        run.result::<()>().await.unwrap();
        let step = run.steps().await.unwrap().remove(0);
        let recorded: serde_json::Value = serde_json::from_slice(&step.result.bytes).unwrap();
        assert_eq!(recorded["until"], step.ended_at + 60, "from when the store was told");
        let ahead = step.ended_at - SystemClock.now();
        assert!((ahead - off).abs() < HOUR_MS / 2, "{ahead} ms from the clock of the worker");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_suspension_can_wait_for_a_child_and_is_a_wait_like_any_other() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("child", |_: Context, n: u32| async move { Ok(n + 1) }).on(
        "parent",
        |ctx: Context, n: u32| async move {
            let child = ctx.start_child("child", &n).await?;
            let either = Condition::AnyOf(vec![Condition::Child(child.id()), Condition::signal("stop")?]);
            let resumed = ctx.suspend(either).await?;
            let doubled: Vec<u32> = ctx.join(vec![child]).await?;
            Ok((doubled[0], resumed.signals.len()))
        },
    );
    let running = start(worker);
    let run = fabric.submit("parent", &1).await.unwrap();
    assert_eq!(run.result::<(u32, usize)>().await.unwrap(), (2, 0));
    let kinds: Vec<_> = run.steps().await.unwrap().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [StepKind::Child, StepKind::Wait, StepKind::Child]);
    running.stop().await;
}

#[tokio::test]
async fn a_sleep_lasts_as_long_although_its_worker_is_gone() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    let worker = |done: &Done| {
        Worker::new(&fabric).data(done.clone()).on("nap", |ctx: Context, (): ()| async move {
            ctx.sleep(SECOND * 100).await?;
            Ok(ctx.data::<Done>()?.note("rested"))
        })
    };
    let running = start(worker(&done));
    let run = fabric.submit("nap", &()).await.unwrap();
    reaches(&run, "delayed").await;
    fabric.advance(SECOND * 10).await;
    running.kill().await;
    let running = start(worker(&done));
    fabric.advance(SECOND * 89).await;
    assert_eq!(done.counts(), counts(&[]));
    fabric.advance(SECOND * 2).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    running.stop().await;
}

#[tokio::test]
async fn children_run_while_their_parent_holds_no_lease() {
    let fabric = TestFabric::new().await;
    let done = Done::default();
    // One place for all: a parent that kept its lease would wait for ever.
    let worker = Worker::new(&fabric)
        .lane("family")
        .concurrency(1)
        .data(done.clone())
        .on("double", |ctx: Context, n: u64| async move {
            ctx.data::<Done>()?.note("double");
            Ok(n * 2)
        })
        .on("sum", |ctx: Context, n: u64| async move {
            let mut children = Vec::new();
            for i in 1..=n {
                children.push(ctx.start_child("double", &i).await?);
            }
            let doubled: Vec<u64> = ctx.join(children).await?;
            let again: u64 = ctx.child("double", &doubled.iter().sum::<u64>()).await?;
            Ok(again)
        });
    let running = start(worker);
    let run = fabric.submit("sum", &3).lane("family").await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), 24);
    assert_eq!(done.counts(), counts(&[("double", 4)]));
    let kinds: Vec<StepKind> = run.steps().await.unwrap().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [StepKind::Child; 8]);
    running.stop().await;
}

#[tokio::test]
async fn a_child_that_fails_is_an_error_that_can_be_told_apart() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric)
        .on(
            "fail",
            |_: Context, (): ()| async move { Err::<u64, TaskFailure>(Fatal("broken").code("glass")) },
        )
        .on("strict", |ctx: Context, (): ()| async move {
            let result: u64 = ctx.child("fail", &()).await?;
            Ok(result)
        })
        .on("lenient", |ctx: Context, (): ()| async move {
            let outcome = ctx
                .child::<u64>("fail", &())
                .with(|it| it.attempts(1).tag("role", "child"))
                .outcome()
                .await?;
            let ending = outcome.unwrap_err();
            Ok((ending.state.word(), ending.error.unwrap().code.unwrap()))
        });
    let running = start(worker);
    let run = fabric.submit("strict", &()).await.unwrap();
    let Error::NotCompleted(ending) = run.result::<u64>().await.unwrap_err() else { panic!() };
    assert_eq!(ending.error.unwrap().code.as_deref(), Some("child_failed"));
    assert_eq!(run.attempts().await.unwrap().len(), 1);
    let run = fabric.submit("lenient", &()).await.unwrap();
    assert_eq!(run.result::<(String, String)>().await.unwrap(), ("failed".to_owned(), "glass".to_owned()));
    assert_eq!(fabric.search().tag("role", "child").await.unwrap().executions.len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn what_a_child_came_to_outlives_the_child() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("child", |_: Context, n: u64| async move { Ok(n + 1) }).on(
        "parent",
        |ctx: Context, (): ()| async move {
            let child = ctx.start_child("child", &1).await?;
            let id = child.id();
            let results: Vec<u64> = ctx.join(vec![child]).await?;
            ctx.wait_for_signal::<()>("go-on").or_timeout(SECOND * 3600).await?;
            Ok((id, results[0]))
        },
    );
    let running = start(worker);
    let run = fabric.submit("parent", &()).await.unwrap();
    while run.steps().await.unwrap().len() < 2 {
        fabric.settle().await;
    }
    reaches(&run, "suspended").await;
    let child = fabric.search().kind("child").await.unwrap().executions[0].id;
    fabric.remove(child).await.unwrap();
    fabric.advance(SECOND * 3601).await;
    assert_eq!(run.result::<(flowfabric::ExecutionId, u64)>().await.unwrap(), (child, 2));
    running.stop().await;
}

#[tokio::test]
async fn a_child_that_cannot_be_is_refused_and_nothing_is_stored() {
    let fabric = TestFabric::new().await;
    let worker = Worker::new(&fabric).on("parent", |ctx: Context, (): ()| async move {
        let refine = |it: Submission| it.priority(101);
        let result: u64 = ctx.child("child", &()).with(refine).await?;
        Ok(result)
    });
    let running = start(worker);
    let run = fabric.submit("parent", &()).await.unwrap();
    let Error::NotCompleted(ending) = run.result::<u64>().await.unwrap_err() else { panic!() };
    let told = "priority is 101; allowed are -100 to 100";
    assert_eq!(&*ending.error.unwrap().message, told);
    assert!(fabric.search().kind("child").await.unwrap().executions.is_empty());
    running.stop().await;
}
