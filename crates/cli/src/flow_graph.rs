//! A flow drawn as text: its nodes level by level, each below everything it waits for, with their states, and what
//! they wait for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ff_core::execution::State;
use flowfabric::{Edge, Execution, ExecutionId, Graph, Ms, On, PublicState, Reason};

use crate::flow_view::{join, name, summary};
use crate::view::{cut, detail, short};

/// So many nodes of one level that differ in nothing but their state are drawn as one line.
const ALIKE_MIN: usize = 8;
/// How much is shown of what a node waits for.
const UPSTREAMS_MAX: usize = 200;
/// How long a name is shown.
const NAME_MAX: usize = 40;

/// The lines of a drawing.
pub fn draw(graph: &Graph, now: Ms) -> Vec<String> {
    let flow = &graph.flow;
    let (nodes, edges) = (flow.live.nodes, flow.live.edges);
    let mut lines = vec![
        format!("{} {}  {}", flow.spec.kind, flow.id, flow.state()),
        format!("{nodes} nodes, {edges} edges: {}", summary(flow)),
        String::new(),
    ];
    let inbound = inbound(&graph.edges);
    let members: HashMap<ExecutionId, &Execution> = graph.members.iter().map(|it| (it.id, &**it)).collect();
    let levels: Vec<Vec<Row>> = levels(&graph.members, &inbound)
        .into_iter()
        .map(|level| rows(&level, &inbound, &members, now))
        .collect();
    let width = |cell: fn(&Row) -> &str| {
        levels.iter().flatten().map(|row| cell(row).chars().count()).max().unwrap_or(0)
    };
    let (names, states, details) = (width(|it| &it.name), width(|it| &it.state), width(|it| &it.detail));
    for (n, level) in levels.iter().enumerate() {
        if n > 0 {
            lines.push("  │".to_owned());
        }
        for (place, row) in level.iter().enumerate() {
            let bracket = match (level.len(), place) {
                (1, _) => ' ',
                (_, 0) => '╭',
                (count, place) if place + 1 == count => '╰',
                _ => '│',
            };
            let Row { sign, name, state, detail, waits } = row;
            let line = format!("{bracket} {sign} {name:names$}  {state:states$}  {detail:details$}  {waits}");
            lines.push(line.trim_end().to_owned());
        }
    }
    if graph.more {
        lines.push(format!("… and {} more nodes; --limit draws more", nodes - graph.members.len() as u64));
    }
    lines
}

/// The signs of all nodes on one line, level by level.
pub fn line(graph: &Graph) -> String {
    let levels = levels(&graph.members, &inbound(&graph.edges));
    let signs = levels.iter().map(|level| level.iter().map(|it| sign(it)).collect::<String>());
    signs.collect::<Vec<_>>().join(" → ")
}

struct Row {
    sign: char,
    name: String,
    state: String,
    detail: String,
    waits: String,
}

type Inbound<'g> = HashMap<ExecutionId, Vec<&'g Edge>>;

fn inbound(edges: &[Arc<Edge>]) -> Inbound<'_> {
    let mut inbound = Inbound::new();
    edges.iter().for_each(|edge| inbound.entry(edge.key.downstream).or_default().push(edge));
    inbound
}

/// Each node one level below the lowest of its upstreams.
fn levels<'g>(members: &'g [Arc<Execution>], inbound: &Inbound<'_>) -> Vec<Vec<&'g Execution>> {
    let known: HashMap<ExecutionId, usize> = members.iter().enumerate().map(|(n, it)| (it.id, n)).collect();
    let upstreams: Vec<Vec<usize>> = members
        .iter()
        .map(|it| {
            let edges = inbound.get(&it.id).into_iter().flatten();
            edges.filter_map(|edge| known.get(&edge.key.upstream).copied()).collect()
        })
        .collect();
    let mut open: Vec<usize> = upstreams.iter().map(Vec::len).collect();
    let mut followers = vec![Vec::new(); members.len()];
    for (n, upstreams) in upstreams.iter().enumerate() {
        upstreams.iter().for_each(|upstream: &usize| followers[*upstream].push(n));
    }
    let mut level = vec![0; members.len()];
    let mut free: Vec<usize> = (0..members.len()).filter(|n| open[*n] == 0).collect();
    while let Some(n) = free.pop() {
        for follower in &followers[n] {
            level[*follower] = level[*follower].max(level[n] + 1);
            open[*follower] -= 1;
            if open[*follower] == 0 {
                free.push(*follower);
            }
        }
    }
    let mut levels: Vec<Vec<&Execution>> = Vec::new();
    for (member, level) in members.iter().zip(level) {
        if levels.len() <= level {
            levels.resize_with(level + 1, Vec::new);
        }
        levels[level].push(member);
    }
    levels
}

/// The rows of one level; nodes that are alike share one.
fn rows(
    level: &[&Execution],
    inbound: &Inbound<'_>,
    members: &HashMap<ExecutionId, &Execution>,
    now: Ms,
) -> Vec<Row> {
    let mut groups: Vec<(String, Vec<&Execution>)> = Vec::new();
    for it in level {
        let waits = waits(it, inbound.get(&it.id).map_or(&[], Vec::as_slice), members);
        // Whether its upstreams have ended is the same for all that wait for the same.
        let key = format!("{} {waits}", it.spec.kind);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, alike)) => alike.push(it),
            None => groups.push((key, vec![it])),
        }
    }
    let mut rows = Vec::new();
    for (_, alike) in groups {
        let edges = |it: &Execution| inbound.get(&it.id).map_or(Vec::new(), Clone::clone);
        if alike.len() < ALIKE_MIN {
            for it in alike {
                rows.push(Row {
                    sign: sign(it),
                    name: cut(&name(it), NAME_MAX),
                    state: it.public_state().to_string(),
                    detail: told(it, now),
                    waits: waits(it, &edges(it), members),
                });
            }
            continue;
        }
        let mut states: BTreeMap<PublicState, usize> = BTreeMap::new();
        alike.iter().for_each(|it| *states.entry(it.public_state()).or_default() += 1);
        let counts: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let first = alike[0];
        // The sign of what is still to be done, if anything is.
        let live = alike.iter().find(|it| it.end().is_none()).unwrap_or(&first);
        rows.push(Row {
            sign: sign(live),
            name: cut(&format!("{} × {}", alike.len(), first.spec.kind), NAME_MAX),
            state: String::new(),
            detail: counts.join(", "),
            waits: waits(first, &edges(first), members),
        });
    }
    rows
}

fn sign(member: &Execution) -> char {
    match (&member.live.state, member.public_state()) {
        (State::Held { .. }, _) => '‖',
        (_, PublicState::Completed) => '✔',
        (_, PublicState::Failed | PublicState::Expired) => '✖',
        (_, PublicState::Cancelled) => '⊘',
        (_, PublicState::Skipped) => '↷',
        (_, PublicState::Active) => '●',
        (_, PublicState::Waiting) => '◌',
        (_, PublicState::Delayed) => '◔',
        _ => '○',
    }
}

/// What matters most about a node in the state it is in.
fn told(member: &Execution, now: Ms) -> String {
    let tries = match member.attempt_number() {
        0 | 1 => String::new(),
        number => format!("try {number}  "),
    };
    let text = match &member.live.state {
        State::Blocked { .. } if member.child_flow().is_some() => "a flow".to_owned(),
        State::Blocked { .. } | State::Ready { .. } => String::new(),
        State::Delayed { .. } => format!("{}  {}", member.reason(), detail(member, now)),
        // What it waited before is not its own time.
        State::Ended(end) if end.state == PublicState::Completed => {
            let started = member.live.attempt.as_ref().map_or(end.at, |attempt| attempt.started_at);
            format!("took {}", short(end.at - started))
        }
        State::Ended(end) if end.error.is_none() => match end.reason {
            Reason::SiblingQuorumSatisfied => "not needed any more".to_owned(),
            Reason::SiblingQuorumImpossible => "of no use any more".to_owned(),
            Reason::DependenciesImpossible => "can never start".to_owned(),
            reason => reason.to_string(),
        },
        _ => detail(member, now),
    };
    format!("{tries}{text}").trim_end().to_owned()
}

/// The upstreams of a node with their states, and how many of them it needs.
fn waits(member: &Execution, edges: &[&Edge], members: &HashMap<ExecutionId, &Execution>) -> String {
    let open = member.node().is_some_and(|node| node.open);
    let group = member.node().map(|node| &node.group);
    let mut text = match group {
        Some(group) if group.total > 1 => format!("{} ", join(group.join, group.total)),
        _ => String::new(),
    };
    if edges.is_empty() {
        return if open { "open".to_owned() } else { String::new() };
    }
    text.push_str("◀ ");
    let shown = match edges.len() {
        ..ALIKE_MIN => edges.iter().map(|edge| upstream(edge, members)).collect(),
        _ => many_upstreams(edges, members),
    };
    text.push_str(&cut(&shown.join(", "), UPSTREAMS_MAX));
    if open {
        text.push_str("  open");
    }
    text
}

/// Upstreams by their kinds, where naming each would say too much.
fn many_upstreams(edges: &[&Edge], members: &HashMap<ExecutionId, &Execution>) -> Vec<String> {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for edge in edges {
        let kind = members.get(&edge.key.upstream).map_or("?", |it| it.spec.kind.as_str());
        let kind = format!("{kind}{}", condition(edge));
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    kinds.into_iter().map(|(kind, count)| format!("{count} × {kind}")).collect()
}

fn condition(edge: &Edge) -> &'static str {
    match edge.on {
        On::Success => "",
        On::Failure => " on failure",
        On::Always => " on any end",
    }
}

fn upstream(edge: &Edge, members: &HashMap<ExecutionId, &Execution>) -> String {
    let (name, sign) = match members.get(&edge.key.upstream) {
        Some(it) => (cut(&name(it), NAME_MAX), sign(it)),
        None => (edge.key.upstream.to_string(), '?'),
    };
    let on = condition(edge);
    let field = edge.field.as_ref().map_or_else(String::new, |field| format!(" as {field}"));
    format!("{name} {sign}{on}{field}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flowfabric::testing::TestFabric;
    use flowfabric::{Context, Fatal, FlowRun, TaskFailure, Worker};

    use super::*;

    async fn drawn(fabric: &TestFabric, run: &FlowRun) -> String {
        let graph = run.graph(1_000).await.expect("the flow is there");
        let lines = draw(&graph, fabric.now());
        lines.join("\n").replace(&run.id().to_string(), "ID")
    }

    /// Runs what can run until the flow moves no more by itself.
    async fn play(fabric: &TestFabric, until: impl Future<Output = ()>) {
        let worker = Worker::new(fabric)
            .on("ok", |_: Context, (): ()| async { Ok(()) })
            .on("fail", |_: Context, (): ()| async { Err::<(), TaskFailure>(Fatal("card declined").into()) });
        worker.run_until(until).await.expect("the worker ends");
    }

    #[tokio::test]
    async fn a_flow_is_drawn_level_by_level_with_states_joins_and_conditions() {
        let fabric = TestFabric::new().await;
        let flow = fabric.flow("trip").open();
        let hotel = flow.node("ok", &()).name("hotel");
        let lines =
            ["north", "south"].map(|name| flow.node("ok", &()).name(name).delay(Duration::from_secs(60)));
        let west = flow.node("fail", &()).name("west");
        let flight = flow.node("ok", &()).name("flight").quorum(2, [&lines[0], &lines[1], &west]).let_run();
        let pay = flow.node("ok", &()).name("pay").input("hotel", &hotel).after(&flight);
        flow.node("ok", &()).name("apologise").on_failure(&flight);
        flow.node("ok", &()).name("tidy").always(&pay);
        flow.node("ok", &()).name("more").after(&hotel).open();
        let run = flow.submit().await.expect("it fits");
        insta::assert_snapshot!("graph-before", drawn(&fabric, &run).await);
        let (hotel, west) = (run.node(&hotel), run.node(&west));
        play(&fabric, async { drop((hotel.wait().await, west.wait().await)) }).await;
        insta::assert_snapshot!("graph-between", drawn(&fabric, &run).await);
        fabric.cancel(lines[1].id()).await.expect("it waits");
        run.seal().await.expect("it is open");
        fabric.advance(Duration::from_secs(60)).await;
        play(&fabric, async { drop(run.wait().await) }).await;
        insta::assert_snapshot!("graph-after", drawn(&fabric, &run).await);
    }

    #[tokio::test]
    async fn many_nodes_that_are_alike_are_one_line() {
        let fabric = TestFabric::new().await;
        let flow = fabric.flow("fan");
        let split = flow.node("ok", &()).name("split");
        let parts: Vec<_> = (0..300).map(|_| flow.node("ok", &()).after(&split)).collect();
        flow.node("ok", &()).name("merge").after(&parts);
        let run = flow.submit().await.expect("it fits");
        insta::assert_snapshot!("graph-fan", drawn(&fabric, &run).await);
    }
}
