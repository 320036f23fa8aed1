//! Steps, waits, tokens, children and output on every store, with workers that are stopped in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ff_scratch::{Database, test_postgres};
use flowfabric::{Context, Effect, Fabric, Ignored, Output, StepKind, Worker};
use serde_json::json;

use crate::background::{reaches, start};
use crate::ground::connect;

/// Asks for an approval, runs children, says what it does.
fn worker(fabric: &Fabric, asked: &Arc<AtomicU32>) -> Worker {
    Worker::new(fabric).data(asked.clone()).on("double", |_: Context, n: u64| async move { Ok(n * 2) }).on(
        "order",
        |ctx: Context, n: u64| async move {
            let approval = ctx.waitpoint("approval").action(b"order").approvers(["ada"]).await?;
            let asked = ctx.data::<Arc<AtomicU32>>()?;
            ctx.step("ask", async || {
                ctx.emit("line", "asked").await?;
                Ok(asked.fetch_add(1, Ordering::SeqCst))
            })
            .await?;
            let approved = approval.wait::<u64>().await?;
            ctx.sleep(Duration::from_millis(60)).await?;
            let children = vec![ctx.start_child("double", &n).await?, ctx.start_child("double", &2).await?];
            let doubled: Vec<u64> = ctx.join(children).await?;
            ctx.emit("line", "doubled").await?;
            ctx.summary(&json!({ "done": true })).await?;
            Ok(approved.payload + doubled[0] + doubled[1])
        },
    )
}

async fn works(fabric: Fabric) {
    let asked = Arc::new(AtomicU32::new(0));
    let first = start(worker(&fabric, &asked));
    let run = fabric.submit("order", &10).await.unwrap();
    reaches(&run, "suspended").await;
    first.stop().await;
    // Somebody else goes on with it.
    let second = start(worker(&fabric, &asked));
    let page = fabric.waitpoints().name("approval").await.unwrap();
    let waitpoint = page.waitpoints.iter().find(|it| it.id.execution == run.id()).unwrap().id;
    let token = fabric.issue_token(waitpoint).await.unwrap().token;
    let send = |source: &'static str| {
        fabric.signal_with_token(token.reveal()).payload(&100).source(source).idempotency_key(source)
    };
    assert_eq!(send("eve").await.unwrap().effect, Effect::Ignored(Ignored::NotAnApprover));
    assert_eq!(send("ada").await.unwrap().effect, Effect::Satisfied);
    assert_eq!(run.result::<u64>().await.unwrap(), 124);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "a step that was recorded is not run again");
    assert!(fabric.waitpoints().execution(run.id()).await.unwrap().waitpoints.is_empty());
    let error = fabric.signal_with_token("v1.1.x.y").await.unwrap_err();
    assert_eq!(error.code(), "token_refused");

    let mut steps: Vec<_> =
        run.steps().await.unwrap().iter().map(|it| (it.key.to_string(), it.kind)).collect();
    // Whichever child is seen to have ended is recorded; that may be the second.
    steps[6..].sort_by(|one, other| one.0.cmp(&other.0));
    let wanted = [
        ("approval", StepKind::Waitpoint),
        ("ask", StepKind::Run),
        ("approval #2", StepKind::Wait),
        ("sleep", StepKind::Sleep),
        ("double", StepKind::Child),
        ("double #2", StepKind::Child),
        ("double #3", StepKind::Child),
        ("double #4", StepKind::Child),
    ];
    assert_eq!(steps, wanted.map(|(name, kind)| (name.to_owned(), kind)));
    let signals = run.signals().await.unwrap();
    assert_eq!((signals.len(), &*signals[0].payload.bytes), (1, &b"100"[..]));
    let mut tail = run.tail(None).await.unwrap();
    let mut lines = Vec::new();
    while let Some(output) = tail.next().await.unwrap() {
        if let Output::Frame(frame) = output {
            lines.push(String::from_utf8_lossy(&frame.bytes).into_owned());
        }
    }
    assert_eq!(lines, ["asked", "doubled", r#"{"done":true}"#]);
    assert_eq!(run.summary().await.unwrap().unwrap().document.get(), r#"{"done":true}"#);
    second.stop().await;
    fabric.shutdown(Duration::from_secs(5)).await;
}

/// A node that is a flow: its result is that of its flow, for who comes after it and for who asks. Names stay unique.
async fn a_flow_in_a_flow(fabric: &Fabric) {
    let worker = Worker::new(fabric)
        .on("add", |_: Context, input: serde_json::Value| async move {
            let own = input["n"].as_u64().unwrap_or(0);
            let given = input["inputs"].as_object().into_iter().flat_map(|it| it.values());
            Ok(own + given.filter_map(|it| it.as_u64()).sum::<u64>())
        })
        .on("tell", |_: Context, input: serde_json::Value| async move { Ok(input["inputs"].clone()) });
    let running = start(worker);
    let flow = fabric.flow("outer").open();
    let first = flow.node("add", &json!({ "n": 1 })).name("first");
    let child = flow.child("inner");
    let inner = child.node("add", &json!({ "n": 10 })).name("first");
    child.node("add", &json!({ "n": 100 })).name("last").input("before", &inner);
    let part = child.as_node().name("part").input("seed", &first);
    let several = flow.child("several");
    several.node("add", &json!({ "n": 3 })).name("three");
    several.node("add", &json!({ "n": 4 })).name("four");
    let ends = several.as_node().name("several");
    let last = flow.node("tell", &()).name("last").input("part", &part).input("ends", &ends);
    let run = flow.submit().await.unwrap();
    for name in ["first", "part", "last"] {
        let more = run.grow();
        more.node("add", &()).name(name);
        let told = more.submit().await.unwrap_err().to_string();
        assert!(told.contains(&format!("nodes.name is {name:?} as that of")), "{told}");
    }
    run.seal().await.unwrap();
    let want = json!({ "part": 111, "ends": { "three": 3, "four": 4 } });
    assert_eq!(run.node(&last).result::<serde_json::Value>().await.unwrap(), want);
    assert_eq!(run.node(&part).result::<u64>().await.unwrap(), 111);
    assert_eq!(run.node(&ends).result::<serde_json::Value>().await.unwrap(), want["ends"]);
    let kept = fabric.result(part.id()).await.unwrap().unwrap();
    assert_eq!(&*kept.bytes, b"111");
    running.stop().await;
}

#[tokio::test]
async fn an_order_is_approved_and_a_flow_in_a_flow_runs_in_memory() {
    let fabric = connect("memory:?partitions=3").await.unwrap();
    a_flow_in_a_flow(&fabric).await;
    works(fabric).await;
}

#[tokio::test]
async fn an_order_is_approved_and_a_flow_in_a_flow_runs_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    for partitions in [1, 3] {
        let path = folder.path().join(format!("{partitions}.db"));
        let fabric = connect(&format!("sqlite:{}?partitions={partitions}", path.display())).await.unwrap();
        a_flow_in_a_flow(&fabric).await;
        works(fabric).await;
    }
}

#[tokio::test]
async fn an_order_is_approved_and_a_flow_in_a_flow_runs_on_postgresql() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    let fabric = connect(&format!("{}?partitions=8", database.url())).await.unwrap();
    a_flow_in_a_flow(&fabric).await;
    works(fabric).await;
}
