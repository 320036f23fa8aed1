//! Flows as programs draw, submit, grow and read them.

use std::collections::BTreeMap;
use std::time::Duration;

use flowfabric::{
    CancelPolicy, Context, Direction, EdgeState, Error, Fatal, FlowBuilder, FlowState, Join, Limits, Node,
    On, OnSatisfied, Options, Start, TaskFailure, Worker,
};

use crate::background::start;
use crate::ground::TestFabric;

const SECOND: Duration = Duration::from_secs(1);

/// Runs `ok` and `fail`, which take a word and return it or fail with it.
fn crew(fabric: &TestFabric) -> Worker {
    Worker::new(fabric)
        .on("ok", |_: Context, word: String| async move { Ok(word) })
        .on("fail", |_: Context, word: String| async move { Err::<(), TaskFailure>(Fatal(word).into()) })
}

type Draw = fn(&FlowBuilder);

#[tokio::test]
async fn what_is_wrong_with_a_graph_is_told_before_anything_is_sent() {
    let fabric = TestFabric::new().await;
    let other = fabric.flow("other");
    let cases: &[(Draw, &str)] = &[
        (
            |flow| drop((flow.node("a", &1).name("x"), flow.node("b", &1).name("x"))),
            "name \"x\" is given to two nodes of one flow",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                flow.node("b", &1).quorum(2, &a);
            },
            "nodes.b.quorum is 2, and it has 1 upstreams; allowed are 1 to 1",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                flow.node("b", &1).quorum(0, &a);
            },
            "nodes.b.quorum is 0, and it has 1 upstreams; allowed are 1 to 1",
        ),
        (
            |flow| drop(flow.node("b", &1).any_of([] as [&Node; 0])),
            "nodes.b.any_of has no upstreams; name one at least",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                flow.node("b", &1).after(&a).any_of(&a);
            },
            "nodes.b.join is said twice; a node waits for all of its upstreams (after), or for one (any_of), or for \
             some (quorum)",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                flow.node("b", &1).after(&a).let_run();
            },
            "nodes.b.let_run goes with any_of and quorum; a node that waits for all cancels nothing",
        ),
        (
            |flow| {
                let all = ["x", "y", "z"].map(|name| flow.node("a", &1).name(name));
                flow.node("b", &1).any_of(&all).hedge_each([SECOND, SECOND, SECOND]);
            },
            "nodes.b.hedge has 3 delays for 3 upstreams; give one, or one for each upstream but the first",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                flow.node("b", &1).after(&a).input("rows", &a);
            },
            "nodes.b has an edge from \"a\" twice",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                let b = flow.node("b", &1).after(&a);
                let c = flow.node("c", &1).after(&b);
                a.after(&c);
            },
            "nodes.a waits for itself: a → b → c → a",
        ),
        (
            |flow| {
                let a = flow.node("a", &1);
                a.clone().after(&a);
            },
            "nodes.a has an edge from itself",
        ),
        (|flow| drop(flow.node("a", &1).priority(101)), "nodes.a.priority is 101; allowed are -100 to 100"),
        (
            |flow| drop(flow.node("a b", &1)),
            "nodes.a b.kind contains ' '; allowed are printable characters without blanks and commas",
        ),
        (
            |flow| drop(flow.node("a", &1).open()),
            "flow has open nodes and is sealed when it is submitted; say open() of the flow, too",
        ),
    ];
    for (draw, want) in cases {
        let flow = fabric.flow("wrong");
        draw(&flow);
        let error = flow.submit().await.unwrap_err();
        assert_eq!((error.code(), error.to_string()), ("invalid", (*want).to_owned()));
    }
    let flow = fabric.flow("wrong");
    flow.node("b", &1).after(&other.node("a", &1));
    let error = flow.submit().await.unwrap_err();
    assert_eq!(error.to_string(), "edge has an end in another flow; join nodes of one flow");
    assert_eq!(fabric.flows().await.unwrap().flows, []);
}

#[tokio::test]
async fn nodes_are_named_after_their_kind_with_a_number_where_that_is_taken() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("names");
    let nodes = [flow.node("a", &1), flow.node("a", &2), flow.node("b", &3).name("a-3"), flow.node("a", &4)];
    let run = flow.submit().await.unwrap();
    for (node, name) in nodes.iter().zip(["a", "a-2", "a-3", "a-4"]) {
        assert_eq!(run.named(name).await.unwrap().id(), node.id());
    }
    assert_eq!(run.named("c").await.unwrap_err().to_string(), "there is no node c");
}

#[tokio::test]
async fn a_quorum_cancels_who_is_not_needed_and_the_flow_has_the_result_of_its_end() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("race");
    let fast = ["north", "south"].map(|word| flow.node("ok", word));
    let slow = flow.node("nobody", "west");
    let spare = flow.node("nobody", "east");
    let pick = flow.node("ok", "picked").quorum(2, [&fast[0], &fast[1], &slow]);
    let watcher = flow.node("ok", "seen").name("watcher").any_of([&fast[0], &spare]).let_run();
    flow.node("ok", "done").name("end").after([&pick, &watcher]);
    let run = flow.submit().await.unwrap();
    let worker = start(crew(&fabric));
    assert_eq!(run.node(&slow).wait().await.unwrap().execution.reason().word(), "sibling_quorum_satisfied");
    assert_eq!(run.node(&pick).result::<String>().await.unwrap(), "picked");
    assert_eq!(run.node(&spare).get().await.unwrap().public_state().word(), "waiting", "it was let run");
    run.node(&spare).cancel().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "done");
    assert_eq!(run.state().await.unwrap(), FlowState::Completed);
    worker.stop().await;
}

#[tokio::test]
async fn several_ends_give_an_object_by_their_names() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("ends");
    let a = flow.node("ok", "a").name("a");
    flow.node("ok", "b").name("b").after(&a);
    let c = flow.node("ok", "c").name("c").after(&a);
    // It is not needed, so it is no end, and what it guards is one.
    flow.node("ok", "undone").name("undo").on_failure(&c);
    let run = flow.submit().await.unwrap();
    let worker = start(crew(&fabric));
    let want: BTreeMap<String, String> = [("b", "b"), ("c", "c")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(run.result::<BTreeMap<String, String>>().await.unwrap(), want);
    assert_eq!(run.named("undo").await.unwrap().get().await.unwrap().public_state().word(), "skipped");
    worker.stop().await;
}

#[derive(serde::Deserialize)]
struct Priced {
    currency: String,
    inputs: Prices,
}

#[derive(serde::Deserialize)]
struct Prices {
    hotel: u64,
    flights: Vec<u64>,
}

#[tokio::test]
async fn results_arrive_under_their_names() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("price");
    let hotel = flow.node("price", &100);
    let flights = [20, 30].map(|price| flow.node("price", &price));
    let flights = flights.iter().map(|it| it.result_as("flights")).collect::<Vec<_>>();
    let priced = serde_json::json!({ "currency": "NOK" });
    flow.node("sum", &priced).input("hotel", &hotel).after(flights);
    let run = flow.submit().await.unwrap();
    let worker = Worker::new(&fabric).on("price", |_: Context, price: u64| async move { Ok(price) }).on(
        "sum",
        |_: Context, Priced { currency, inputs }: Priced| async move {
            Ok(format!("{} {currency}", inputs.hotel + inputs.flights.iter().sum::<u64>()))
        },
    );
    let worker = start(worker);
    assert_eq!(run.result::<String>().await.unwrap(), "150 NOK");
    worker.stop().await;
}

#[tokio::test]
async fn a_failure_runs_what_is_for_it_and_the_flow_says_who_failed() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("charge");
    let charge = flow.node("fail", "card declined").name("charge");
    let ship = flow.node("ok", "shipped").after(&charge);
    let refund = flow.node("ok", "refunded").on_failure(&charge);
    let clean = flow.node("ok", "clean").always(&ship);
    let run = flow.submit().await.unwrap();
    let worker = start(crew(&fabric));
    let error = run.result::<String>().await.unwrap_err();
    let want = format!("flow {} failed: node charge failed (fatal_error): card declined", run.id());
    assert_eq!((error.code(), error.to_string()), ("not_completed", want));
    let Error::FlowNotCompleted(ending) = error else { panic!("{error}") };
    assert_eq!(ending.culprit.unwrap().execution, charge.id());
    for (node, state) in [(&ship, "skipped"), (&refund, "completed"), (&clean, "completed")] {
        assert_eq!(run.node(node).get().await.unwrap().public_state().word(), state);
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_hedge_starts_the_next_when_the_one_before_has_run_for_long() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("hedge");
    let slow = flow.node("slow", &());
    let spares = ["b", "c"].map(|word| flow.node("ok", word).delay(Duration::ZERO));
    let all = [&slow, &spares[0], &spares[1]];
    let pick = flow.node("ok", "picked").any_of(all).hedge_each([2 * SECOND, 5 * SECOND]);
    let run = flow.submit().await.unwrap();
    let worker = start(crew(&fabric).on("slow", |ctx: Context, (): ()| async move {
        ctx.cancelled().await;
        Ok(())
    }));
    let mut watch = run.node(&slow).watch().await.unwrap();
    while watch.next().await.unwrap().unwrap().public_state().word() != "active" {}
    fabric.advance(SECOND).await;
    let spare = run.node(&spares[0]).get().await.unwrap();
    assert_eq!((spare.public_state().word(), spare.reason().word()), ("delayed", "hedge"));
    fabric.advance(SECOND).await;
    assert_eq!(run.node(&pick).result::<String>().await.unwrap(), "picked");
    assert_eq!(run.node(&slow).get().await.unwrap().public_state().word(), "cancelled");
    assert_eq!(run.node(&spares[1]).get().await.unwrap().live.attempt, None);
    worker.stop().await;
}

#[tokio::test]
async fn a_flow_grows_until_it_is_sealed() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("grow").open();
    let head = flow.node("ok", "head").name("head");
    let join = flow.node("ok", "join").name("join").open();
    let run = flow.submit().await.unwrap();
    assert_eq!(run.state().await.unwrap(), FlowState::Open);
    let quorum = Join::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun };
    assert!(!run.set_join(join.id(), quorum).await.unwrap());
    assert!(run.set_join(join.id(), quorum).await.unwrap(), "it is said again");

    let revision = run.get().await.unwrap().live.revision;
    let more = run.grow().expected_revision(revision);
    more.node("ok", "x").name("x").after(&head).before(&join);
    // The other way round it is the same.
    join.clone().after(&more.node("ok", "y").name("y").after(&head));
    let grown = more.submit().await.unwrap();
    assert_eq!((grown.live.nodes, grown.live.edges, grown.live.revision), (4, 4, revision + 1));

    let late = run.grow().expected_revision(revision);
    late.edge(head.ended(), &join);
    assert_eq!(late.submit().await.unwrap_err().code(), "revision_mismatch");
    let late = run.grow();
    late.edge(head.ended(), &join);
    late.submit().await.unwrap();
    let edge = run.edge(head.id(), join.id()).await.unwrap();
    assert_eq!((edge.on, edge.state()), (On::Always, EdgeState::Pending));
    assert_eq!(run.edges(join.id(), Direction::In, 0, 2).await.unwrap().edges.len(), 2);

    assert_eq!(run.seal().await.unwrap().state(), FlowState::Running);
    let worker = start(crew(&fabric));
    assert_eq!(run.node(&join).result::<String>().await.unwrap(), "join");
    assert_eq!(run.wait().await.unwrap().state(), FlowState::Completed);
    let late = run.grow();
    late.node("ok", "late");
    assert_eq!(late.submit().await.unwrap_err().code(), "flow_ended");
    worker.stop().await;
}

#[tokio::test]
async fn a_name_that_is_in_the_flow_is_refused_later_and_nodes_without_one_get_their_own() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("names").open();
    flow.node("ok", "a").name("a");
    let run = flow.submit().await.unwrap();
    let late = run.grow();
    late.node("ok", "again").name("a");
    let told = late.submit().await.unwrap_err().to_string();
    assert!(told.contains(r#"nodes.name is "a" as that of"#), "{told}");
    for _ in 0..2 {
        let more = run.grow();
        more.node("ok", "x");
        more.node("ok", "y");
        more.submit().await.unwrap();
    }
    assert_eq!(run.get().await.unwrap().live.nodes, 5, "and nothing of what was refused");
}

#[tokio::test]
async fn a_member_that_is_replayed_adds_its_nodes_once_more() {
    let fabric = TestFabric::new().await;
    let worker = start(crew(&fabric).on("split", |ctx: Context, (): ()| async move {
        ctx.expand()?.node("ok", "part");
        Ok(())
    }));
    let flow = fabric.flow("again");
    let split = flow.node("split", &());
    let run = flow.submit().await.unwrap();
    assert_eq!(run.wait().await.unwrap().state(), FlowState::Completed);
    fabric.replay(split.id()).await.unwrap();
    assert_eq!(run.wait().await.unwrap().state(), FlowState::Completed);
    assert_eq!(run.get().await.unwrap().live.nodes, 3);
    worker.stop().await;
}

#[tokio::test]
async fn joining_two_nodes_of_a_flow_that_is_submitted_is_told() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("late").open();
    let (first, last) = (flow.node("ok", "first"), flow.node("ok", "last").open());
    let run = flow.submit().await.unwrap();
    assert_eq!(run.state().await.unwrap(), FlowState::Open);
    last.after(&first);
    let told = "edge joins nodes of a flow that is submitted already; draw it with FlowRun::grow";
    assert_eq!(run.get().await.unwrap_err().to_string(), told);
    assert_eq!(run.wait().await.unwrap_err().to_string(), told);
    assert_eq!(flow.submit().await.unwrap_err().to_string(), told);
    let other = fabric.flow_run(run.id());
    assert_eq!(other.get().await.unwrap().live.edges, 0, "who did not draw it is not concerned");
}

#[tokio::test]
async fn a_graph_larger_than_one_call_goes_in_parts() {
    let limits = Limits { flow_items_max: 10, ..Limits::default() };
    let fabric = TestFabric::with(Options::new().limits(limits)).await.unwrap();
    let flow = fabric.flow("large");
    let head = flow.node("ok", "head").name("head");
    let parts: Vec<Node> = (0..45).map(|n| flow.node("ok", &n.to_string()).after(&head)).collect();
    flow.node("ok", "tail").name("tail").after(&parts);
    let run = flow.submit().await.unwrap();
    let stored = run.get().await.unwrap();
    assert_eq!((stored.live.nodes, stored.live.edges, stored.live.sealed), (47, 90, true));
    assert_eq!(stored.live.open_nodes, 0);
    let again = flow.submit().await.unwrap();
    assert!(again.existing(), "it is the same flow");
    assert_eq!(run.get().await.unwrap().live.edges, 90);
    let worker = start(crew(&fabric));
    assert_eq!(run.result::<String>().await.unwrap(), "tail");
    worker.stop().await;
}

#[tokio::test]
async fn what_may_not_be_cut_goes_in_one_part_of_a_large_graph() {
    let limits = Limits { flow_items_max: 10, ..Limits::default() };
    let fabric = TestFabric::with(Options::new().limits(limits)).await.unwrap();
    let flow = fabric.flow("large");
    // All spares are drawn before all joins, with something between some of them.
    let spares: Vec<Vec<Node>> =
        (0..8).map(|_| (0..3).map(|n| flow.node("ok", &n.to_string())).collect()).collect();
    let between = flow.node("ok", "between").after(&spares[0][0]);
    let mut ends = Vec::new();
    for (n, some) in spares.iter().enumerate() {
        let mut all: Vec<&Node> = some.iter().collect();
        all.extend((n == 0).then_some(&between));
        ends.push(flow.node("ok", "join").any_of(all).hedge(Duration::from_millis(1)));
        let child = flow.child("inner");
        child.as_node().after(&ends[n]);
        (0..4).for_each(|n| drop(child.node("ok", &n.to_string())));
    }
    flow.node("ok", "tail").name("tail").after(&ends);
    let run = flow.submit().await.unwrap();
    let stored = run.get().await.unwrap();
    assert_eq!((stored.live.nodes, stored.live.sealed), (24 + 1 + 16 + 1, true));
    let worker = start(crew(&fabric));
    assert_eq!(run.wait().await.unwrap().state().word(), "completed");
    worker.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_into_one_call_is_told_before_anything_is_sent() {
    let limits = Limits { flow_items_max: 10, ..Limits::default() };
    let fabric = TestFabric::with(Options::new().limits(limits)).await.unwrap();
    let cases: [(Draw, &str); 2] = [
        (
            |flow| {
                let all: Vec<Node> = (0..10).map(|n| flow.node("ok", &n.to_string())).collect();
                flow.node("ok", "join").name("join").any_of(&all).hedge(SECOND);
            },
            "nodes.join.hedge goes in one call with all it starts and what lies between: 11 nodes and 10 edges; \
             allowed are at most 10 of each",
        ),
        (
            |flow| {
                let child = flow.child("inner");
                child.as_node().name("inner");
                (0..10).for_each(|n| drop(child.node("ok", &n.to_string())));
            },
            "nodes.inner.flow goes in one call with its node: 11 nodes and 0 edges; allowed are at most 10 of each",
        ),
    ];
    for (draw, problem) in cases {
        let flow = fabric.flow("large");
        (0..30).for_each(|n| drop(flow.node("ok", &n.to_string())));
        draw(&flow);
        assert_eq!(flow.submit().await.unwrap_err().to_string(), problem);
    }
    assert_eq!(fabric.flows().await.unwrap().flows.len(), 0);
}

#[tokio::test]
async fn a_flow_that_is_submitted_again_is_the_same() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("twice");
    flow.node("ok", "a");
    assert!(!flow.submit().await.unwrap().existing());
    assert!(flow.submit().await.unwrap().existing());
    flow.node("ok", "b");
    assert_eq!(flow.submit().await.unwrap_err().code(), "flow_mismatch");
    assert_eq!(fabric.flows().await.unwrap().flows.len(), 1);
}

#[tokio::test]
async fn a_cancel_names_the_members_in_pages_and_the_last_is_waited_for() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("many").tag("team", "a");
    let nodes: Vec<Node> = (0..1_000).map(|n| flow.node("nobody", &n)).collect();
    let run = flow.submit().await.unwrap();
    let more = run.cancel(CancelPolicy::FlowOnly).await.unwrap();
    assert_eq!((more.members.len(), more.next), (1_000, None));
    assert_eq!(run.get().await.unwrap().live.end, None, "its members run on");
    let rest = run.cancel(CancelPolicy::CancelAll).cause("enough").members_after(990).await.unwrap();
    assert_eq!(rest.members, nodes[990..].iter().map(Node::id).collect::<Vec<_>>());
    let ended = run.wait().await.unwrap();
    assert_eq!(ended.state(), FlowState::Cancelled);
    assert_eq!(ended.live.cancel.as_ref().unwrap().policy, CancelPolicy::CancelAll);
    let error = run.result::<()>().await.unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
}

#[tokio::test]
async fn tags_and_events_of_a_flow_are_read_and_set() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("tags").tag("team", "a").actor("ada");
    flow.node("nobody", &1);
    let run = flow.submit().await.unwrap();
    run.set_tags([("team", None), ("step", Some("2"))]).await.unwrap();
    assert_eq!(run.tag("team").await.unwrap(), None);
    assert_eq!(run.tag("step").await.unwrap().as_deref(), Some("2"));
    assert_eq!(fabric.flows().tag("step", "2").await.unwrap().flows[0].id, run.id());
    let gone = fabric.flow_run(fabric.flow("none").id());
    assert_eq!(gone.tag("team").await.unwrap_err().code(), "not_found");
    let mut events = run.events(Start::Beginning).await.unwrap();
    let mut words = Vec::new();
    while words.last() != Some(&"flow_tagged") {
        words.push(events.next().await.unwrap().event.fact.word());
    }
    assert_eq!(words, ["created", "flow_created", "flow_tagged"]);
}

#[tokio::test]
async fn a_handler_adds_what_comes_after_it_with_its_completion() {
    let fabric = TestFabric::new().await;
    let flow = fabric.flow("split");
    let split = flow.node("split", &3).attempts(2);
    let merge = flow.node("ok", "merged").name("merge").after(&split);
    let run = flow.submit().await.unwrap();
    let worker = start(crew(&fabric).on("split", |ctx: Context, count: u32| async move {
        let more = ctx.expand()?;
        let merge = more.downstream("merge").await?;
        for n in 0..count {
            more.node("ok", &n.to_string()).before(&merge);
        }
        if ctx.attempt() == 1 {
            // What a failed attempt has drawn is forgotten.
            return Err(flowfabric::RetryAfter(SECOND, "not yet").into());
        }
        assert!(more.downstream("elsewhere").await.is_err());
        Ok(count)
    }));
    let mut watch = run.node(&split).watch().await.unwrap();
    while watch.next().await.unwrap().unwrap().public_state().word() != "delayed" {}
    assert_eq!(run.get().await.unwrap().live.nodes, 2);
    fabric.advance(SECOND).await;
    assert_eq!(run.result::<String>().await.unwrap(), "merged");
    let flow = run.get().await.unwrap();
    assert_eq!((flow.live.nodes, flow.live.edges), (5, 7));
    assert_eq!(run.named("split/ok-3").await.unwrap().result::<String>().await.unwrap(), "2");
    let group = &run.node(&merge).get().await.unwrap();
    assert_eq!(group.node().unwrap().group.satisfied, 4);
    worker.stop().await;
}

#[tokio::test]
async fn an_expansion_that_is_refused_fails_its_attempt_and_says_why() {
    let fabric = TestFabric::new().await;
    let worker = start(
        crew(&fabric)
            .on("circle", |ctx: Context, (): ()| async move {
                let more = ctx.expand()?;
                let a = more.node("ok", "a");
                let b = more.node("ok", "b").after(&a);
                a.after(&b);
                Ok(())
            })
            .on("stranger", |ctx: Context, other: flowfabric::ExecutionId| async move {
                let more = ctx.expand()?;
                more.node("ok", "a").before(&more.member(other));
                Ok(())
            })
            .on("alone", |ctx: Context, (): ()| async move { ctx.expand().map(drop) }),
    );
    let flow = fabric.flow("refused");
    let first = flow.node("ok", "first").name("first");
    let circle = flow.node("circle", &()).after(&first);
    let stranger = flow.node("stranger", &first.id()).after(&first);
    let run = flow.submit().await.unwrap();
    for (node, code) in [(&circle, "bad_expansion"), (&stranger, "group_closed")] {
        let ended = run.node(node).wait().await.unwrap();
        let error = ended.execution.end().unwrap().error.clone().unwrap();
        assert_eq!(error.code.as_deref(), Some(code), "{error:?}");
    }
    assert_eq!(run.wait().await.unwrap().live.nodes, 3, "nothing of them was stored");
    let alone = fabric.submit("alone", &()).await.unwrap();
    let error = alone.wait().await.unwrap().execution.end().unwrap().error.clone().unwrap();
    assert_eq!(error.code.as_deref(), Some("not_in_flow"));
    worker.stop().await;
}
