//! A tree becomes a flow.

use flowfabric::{Drawing, Fabric, FlowBuilder, FlowId, Node, Upstream};

use super::Fault;
use super::fields::{At, Fields, nearest};
use super::tree::Tree;
use super::work::{RUNS, WORK, pairs, work};

const FLOW: &[&str] = &["kind", "namespace", "tags", "open", "defaults", "nodes"];
const GROWTH: &[&str] = &["defaults", "nodes"];
const WAITS: &[&str] =
    &["after", "on_failure", "always", "inputs", "any_of", "quorum", "let_run", "hedge", "open"];
const NODE: &[&str] = &["kind", "flow"];

/// Everything that a node may say.
pub fn node_fields() -> Vec<&'static str> {
    [NODE, WORK, RUNS, WAITS].concat()
}

/// A flow and its nodes by name.
type Drawn = (FlowBuilder, Vec<(String, Node)>);

pub fn draw(tree: &Tree, fabric: &Fabric, id: Option<FlowId>) -> Result<Drawn, Fault> {
    let root = At { tree, path: String::new() };
    let fields = root.fields(FLOW)?;
    let missing = |field: &str, what: &str| Fault::new(tree.place, field, format!("is missing; {what}"));
    let kind = fields.get("kind").ok_or_else(|| missing("kind", "it says what sort of flow this is"))?;
    let mut flow = match id {
        Some(id) => fabric.flow_with_id(id, kind.text()?),
        None => fabric.flow(kind.text()?),
    };
    if let Some(namespace) = fields.get("namespace") {
        flow = flow.namespace(namespace.text()?);
    }
    for (key, value) in pairs(fields.get("tags"))? {
        flow = flow.tag(key, value);
    }
    if fields.get("open").map_or(Ok(false), At::switch)? {
        flow = flow.open();
    }
    let defaults = fields.get("defaults").map(|it| it.fields(RUNS)).transpose()?;
    let listed = tree.entry("nodes").map(|tree| At { tree, path: "nodes".to_owned() });
    let listed = listed.ok_or_else(|| missing("nodes", "it holds the nodes by their names"))?;
    let nodes = draw_nodes(&flow, &listed, defaults.as_ref(), &[])?;
    Ok((flow, nodes))
}

/// Nodes to be added to a flow. They may wait for nodes that are `there`.
pub fn add(tree: &Tree, flow: &Drawing, there: &[(String, Node)]) -> Result<Vec<(String, Node)>, Fault> {
    let fields = At { tree, path: String::new() }.fields(GROWTH)?;
    let defaults = fields.get("defaults").map(|it| it.fields(RUNS)).transpose()?;
    let listed = tree.entry("nodes").map(|tree| At { tree, path: "nodes".to_owned() });
    let missing = || Fault::new(tree.place, "nodes", "is missing; it holds the nodes by their names");
    draw_nodes(flow, &listed.ok_or_else(missing)?, defaults.as_ref(), there)
}

fn draw_nodes(
    flow: &Drawing,
    listed: &At<'_>,
    defaults: Option<&Fields<'_>>,
    there: &[(String, Node)],
) -> Result<Vec<(String, Node)>, Fault> {
    let allowed = node_fields();
    let mut nodes = Vec::new();
    let mut waits = Vec::new();
    for (name, at) in listed.entries()? {
        let fields = at.fields(&allowed)?;
        let kind = fields.get("kind").map_or(Ok(name), At::text)?;
        let node = match fields.get("flow") {
            None => flow.add(work(kind, &fields, defaults)?),
            Some(inner) => {
                if let Some(own) = WORK.iter().chain(RUNS).find_map(|it| fields.get(it)) {
                    return Err(own.fault("goes with a node that a worker runs; the nodes of a flow say it"));
                }
                let child = flow.child(kind);
                draw_nodes(&child, inner, defaults, &[])?;
                child.as_node()
            }
        };
        let node = node.name(name);
        nodes.push((name.to_owned(), node.clone()));
        waits.push((node, fields));
    }
    // A name in the file goes before one that is there already; the flow refuses it if it is taken.
    let known = [nodes.as_slice(), there].concat();
    for (node, fields) in waits {
        connect(node, &fields, &known)?;
    }
    Ok(nodes)
}

fn connect(mut node: Node, fields: &Fields<'_>, nodes: &[(String, Node)]) -> Result<(), Fault> {
    let all = |at: &At<'_>| at.items().iter().map(|it| upstream(it, nodes)).collect::<Result<Vec<_>, _>>();
    if let Some(at) = fields.get("after") {
        node = node.after(all(at)?);
    }
    for at in fields.get("on_failure").map_or(Vec::new(), At::items) {
        node = node.on_failure(&named(&at, nodes)?);
    }
    for at in fields.get("always").map_or(Vec::new(), At::items) {
        node = node.always(&named(&at, nodes)?);
    }
    for (field, at) in fields.get("inputs").map_or(Ok(Vec::new()), At::entries)? {
        node = node.input(field, &named(&at, nodes)?);
    }
    if let Some(at) = fields.get("any_of") {
        node = node.any_of(all(at)?);
    }
    if let Some(at) = fields.get("quorum") {
        let quorum = at.fields(&["k", "of"])?;
        let missing = || at.fault("needs k, how many, and of, a list of nodes");
        let k = quorum.get("k").ok_or_else(missing)?.number()?;
        node = node.quorum(k, all(quorum.get("of").ok_or_else(missing)?)?);
    }
    if fields.get("let_run").map_or(Ok(false), At::switch)? {
        node = node.let_run();
    }
    if let Some(at) = fields.get("hedge") {
        let delays = at.items().iter().map(At::duration).collect::<Result<Vec<_>, _>>()?;
        node = node.hedge_each(delays);
    }
    if fields.get("open").map_or(Ok(false), At::switch)? {
        node.open();
    }
    Ok(())
}

/// A name, or `{ node: NAME, on: success | failure | always, as: FIELD }`.
fn upstream(at: &At<'_>, nodes: &[(String, Node)]) -> Result<Upstream, Fault> {
    if at.text().is_ok() {
        return Ok((&named(at, nodes)?).into());
    }
    let fields = at.fields(&["node", "on", "as"])?;
    let name = fields.get("node").ok_or_else(|| at.fault("needs a name, or an object with node in it"))?;
    let node = named(name, nodes)?;
    let on = fields.get("on").map_or(Ok("success"), At::text)?;
    match (on, fields.get("as")) {
        ("success", None) => Ok((&node).into()),
        ("success", Some(field)) => Ok(node.result_as(field.text()?)),
        ("failure" | "always", Some(field)) => {
            Err(field.fault("goes with on: success; only what completes has a result"))
        }
        ("failure", None) => Ok(node.failed()),
        ("always", None) => Ok(node.ended()),
        (other, _) => Err(at.fault(format!("has on: {other}; allowed are success, failure, always"))),
    }
}

fn named(at: &At<'_>, nodes: &[(String, Node)]) -> Result<Node, Fault> {
    let name = at.text()?;
    let found = nodes.iter().find(|(it, _)| it == name);
    found.map(|(_, node)| node.clone()).ok_or_else(|| {
        let hint = match nearest(name, nodes.iter().map(|(it, _)| it.as_str())) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "there is no such node".to_owned(),
        };
        at.fault(format!("names {name:?}; {hint}"))
    })
}
