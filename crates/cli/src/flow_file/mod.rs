//! Flows in files: YAML or JSON, read with the place of everything in it, so that what is wrong is told by file,
//! line, column and field.
//!
//! | to read about | open |
//! |---|---|
//! | text into a tree that knows its places | `tree.rs` |
//! | fields of a tree, and what they may hold | `fields.rs` |
//! | a tree into a flow | `draw.rs` |
//! | how a node runs: its input, its times, its tries | `work.rs` |

mod draw;
mod fields;
mod tree;
mod work;

use std::fmt;
use std::io::Read as _;

use flowfabric::{Error, Fabric, FlowBuilder, FlowId, Growth, Node};

use crate::problem::Problem;
pub use tree::Format;
use tree::{Place, Tree};

/// What a node may say.
#[cfg(test)]
pub fn fields_of_nodes() -> Vec<&'static str> {
    draw::node_fields()
}

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    place: Place,
    /// Which field; empty if it is the text itself.
    field: String,
    problem: String,
}

impl Fault {
    fn new(place: Place, field: impl Into<String>, problem: impl Into<String>) -> Fault {
        Fault { place, field: field.into(), problem: problem.into() }
    }

    fn in_file(&self, file: &str) -> Problem {
        Problem::invalid(format!("{file}:{self}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        let blank = if self.field.is_empty() { "" } else { " " };
        write!(f, "{line}:{column}: {}{blank}{}", self.field, self.problem)
    }
}

/// How large a file may be.
const FILE_MAX: u64 = 64 << 20;

/// Reads a file, or standard input for `-`, and says what it is called in messages.
pub fn read(file: &str) -> Result<(String, String, Format), Problem> {
    let cannot = |error: std::io::Error| {
        Problem::invalid(format!("file: cannot read {file}: {error}"))
            .hint("give the path of a YAML or JSON file, or - for standard input")
    };
    let source: Box<dyn std::io::Read> = match file {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(std::fs::File::open(path).map_err(cannot)?),
    };
    let mut text = String::new();
    source.take(FILE_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > FILE_MAX {
        return Err(Problem::invalid(format!("file has more than {FILE_MAX} bytes; that is too large")));
    }
    let format = format_of(file, &text);
    let name = if file == "-" { "standard input" } else { file };
    Ok((name.to_owned(), text, format))
}

/// By the end of its name; what has none is JSON if it looks like it.
fn format_of(file: &str, text: &str) -> Format {
    match file.rsplit_once('.').map(|(_, end)| end) {
        Some("json") => Format::Json,
        Some("yaml" | "yml") => Format::Yaml,
        _ if text.trim_start().starts_with('{')
            && serde_json::from_str::<serde_json::Value>(text).is_ok() =>
        {
            Format::Json
        }
        _ => Format::Yaml,
    }
}

/// Something that was read from a file: a flow, or what is to be added to one.
pub struct FlowFile<T> {
    file: String,
    tree: Tree,
    pub flow: T,
    /// The nodes by their names, as they stand in the file.
    pub nodes: Vec<(String, Node)>,
}

impl FlowFile<FlowBuilder> {
    /// A flow under this id, or under a new one.
    pub fn new_flow(
        file: &str,
        text: &str,
        format: Format,
        fabric: &Fabric,
        id: Option<FlowId>,
    ) -> Result<Self, Problem> {
        let tree = tree::parse(text, format).map_err(|fault| fault.in_file(file))?;
        let (flow, nodes) = draw::draw(&tree, fabric, id).map_err(|fault| fault.in_file(file))?;
        Ok(FlowFile { file: file.to_owned(), tree, flow, nodes })
    }
}

impl FlowFile<Growth> {
    /// What is to be added to a flow whose nodes are `there`.
    pub fn growth(
        file: &str,
        text: &str,
        format: Format,
        flow: Growth,
        there: &[(String, Node)],
    ) -> Result<Self, Problem> {
        let tree = tree::parse(text, format).map_err(|fault| fault.in_file(file))?;
        let nodes = draw::add(&tree, &flow, there).map_err(|fault| fault.in_file(file))?;
        Ok(FlowFile { file: file.to_owned(), tree, flow, nodes })
    }
}

impl<T> FlowFile<T> {
    /// Says where in the file it is what the flow was refused for.
    pub fn explain(&self, error: Error) -> Problem {
        let (Error::Invalid(invalid), Some(field)) = (&error, error.field()) else { return error.into() };
        let place = self.place_of(field);
        Fault::new(place, field, invalid.problem.clone()).in_file(&self.file)
    }

    /// The place of a field such as `nodes.load.quorum`, or of what is around it.
    fn place_of(&self, field: &str) -> Place {
        match field.strip_prefix("nodes.").zip(self.tree.entry("nodes")) {
            Some((rest, nodes)) => place_in(nodes, rest),
            None => self.tree.entry(field).map_or(self.tree.place, |it| it.place),
        }
    }
}

/// The place of a field among nodes, such as `load.quorum`, or `load.flow.part.after` in a node that is a flow.
fn place_in(nodes: &Tree, field: &str) -> Place {
    // Names may have dots: the longest that fits is meant.
    let fits =
        |name: &&str| field.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let Some(name) = nodes.names().filter(fits).max_by_key(|name| name.len()) else { return nodes.place };
    let place = nodes.key_place(name).unwrap_or(nodes.place);
    let Some((node, rest)) = nodes.entry(name).zip(field.get(name.len() + 1..)) else { return place };
    match rest.strip_prefix("flow.").zip(node.entry("flow")) {
        Some((rest, inner)) => place_in(inner, rest),
        None => node.entry(rest).map_or(place, |it| it.place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fault(text: &str, format: Format) -> String {
        let fabric = flowfabric::connect("memory:").await.expect("memory is always there");
        let file = match FlowFile::new_flow("f", text, format, &fabric, None) {
            Ok(file) => file,
            Err(problem) => return problem.message,
        };
        let message = match file.flow.submit().await {
            Ok(_) => "it is fine".to_owned(),
            Err(error) => file.explain(error).message,
        };
        fabric.shutdown(std::time::Duration::ZERO).await;
        message
    }

    #[tokio::test]
    async fn what_is_wrong_is_told_by_line_column_and_field() {
        let cases = [
            ("kind: a\nnodes: {}\n", "it is fine"),
            ("kind: a\n", "f:1:1: nodes is missing; it holds the nodes by their names"),
            ("kind: a\nnodes:\n  x: {}\n  x: {}\n", "f:4:3: nodes has \"x\" twice"),
            (
                "kind: a\nnodes:\n  x:\n    afer: y\n",
                "f:4:5: nodes.x has no field \"afer\"; did you mean \"after\"?",
            ),
            (
                "kind: a\nnodes:\n  x:\n    after: [y]\n",
                "f:4:13: nodes.x.after names \"y\"; there is no such node",
            ),
            (
                "kind: a\nnodes:\n  extract: {}\n  x:\n    after: extarct\n",
                "f:5:12: nodes.x.after names \"extarct\"; did you mean \"extract\"?",
            ),
            (
                "kind: a\nnodes:\n  x: {}\n  y:\n    quorum: { k: 2, of: [x] }\n",
                "f:5:13: nodes.y.quorum is 2, and it has 1 upstreams; allowed are 1 to 1",
            ),
            (
                "kind: a\nnodes:\n  x: { after: y }\n  y: { after: x }\n",
                "f:3:3: nodes.x waits for itself: x → y → x",
            ),
            ("kind: a\nnodes:\n  x: {}\n  y: { after: y }\n", "f:4:3: nodes.y has an edge from itself"),
            (
                "kind: a\nnodes:\n  x: {}\n  y: { after: [x], always: x }\n",
                "f:4:3: nodes.y has an edge from \"x\" twice",
            ),
            (
                "kind: a\nnodes:\n  o.p:\n    flow:\n      x: {}\n      y: { any_of: x, let_run: true, priority: 999 }\n",
                "f:6:48: nodes.o.p.flow.y.priority is 999; allowed are -100 to 100",
            ),
            (
                "kind: a\nnodes:\n  o:\n    flow:\n      x: { after: y }\n      y: { after: x }\n",
                "f:5:7: nodes.o.flow.x waits for itself: x → y → x",
            ),
            ("kind: a\nnodes:\n  x: { attempts: many }\n", "f:3:18: nodes.x.attempts is not a whole number"),
            (
                "kind: a\nnodes:\n  x: { priority: 101 }\n",
                "f:3:18: nodes.x.priority is 101; allowed are -100 to 100",
            ),
            ("kind: a\nnodes: [x, y]\n", "f:2:8: nodes is a list; an object is needed here"),
            (
                "kind: a b\nnodes: {}\n",
                "f:1:7: kind contains ' '; allowed are printable characters without blanks and commas",
            ),
            (
                "kind: a\nnodes:\n  x:\n    flow:\n      y: { after: z }\n  z: {}\n",
                "f:5:19: nodes.x.flow.y.after names \"z\"; there is no such node",
            ),
            (
                "kind: a\nnodes:\n  x:\n    input: 1\n    flow: { y: {} }\n",
                "f:4:12: nodes.x.input goes with a node that a worker runs; the nodes of a flow say it",
            ),
            (
                "kind: a\nnodes:\n  x: { run_at: 2026-01-31T12:00:00Z, delay: 1s }\n",
                "f:3:16: nodes.x.run_at goes without delay; a node starts at one time",
            ),
            (
                "kind: a\nnodes:\n  x: { deadline_at: tomorrow }\n",
                "f:3:21: nodes.x.deadline_at is not a time; allowed are RFC 3339 times such as \
                 2026-01-31T12:00:00Z and milliseconds since 1970",
            ),
            ("kind: a\nnodes:\n  x: { run_at: 2026-01-31T12:00:00Z, deadline: 1h }\n", "it is fine"),
            (
                "kind: a\nnodes:\n  x:\n    policy: { max_elapsed_ms: 1h, backoff: { factor: 3, jitter: none } }\n",
                "it is fine",
            ),
            (
                "kind: a\nnodes:\n  x: { policy: 3 }\n",
                "f:3:16: nodes.x.policy is a number; an object is needed here",
            ),
            (
                "kind: a\nnodes:\n  x:\n    policy: { backoff: { factor: much } }\n",
                "f:4:34: nodes.x.policy.backoff.factor does not fit: invalid type: string \"much\", expected f64",
            ),
            (
                "kind: a\nnodes:\n  x:\n    policy: { colour: 1 }\n",
                "f:4:15: nodes.x.policy has no field \"colour\"; allowed are attempt_timeout_ms, backoff, \
                 lease_grace_ms, lease_loss, lease_ms, losses_max, max_attempts, max_elapsed_ms, non_retryable, \
                 replays_max, schedule_to_start_ms",
            ),
            (
                "kind: a\nnodes:\n  x:\n    policy: { backoff: { factr: 1 } }\n",
                "f:4:26: nodes.x.policy.backoff has no field \"factr\"; did you mean \"factor\"?",
            ),
            (
                "kind: a\nnodes:\n  x: { content_type: text/csv, input: [1] }\n",
                "f:3:39: nodes.x.input is a list; a text is needed here",
            ),
            (
                "kind: a\nnodes:\n  x: { content_type: text/csv }\n",
                "f:3:22: nodes.x.content_type needs input with a text, or input_base64",
            ),
            ("kind: a\nnodes:\n  x: { input_base64: aGk }\n", "f:3:22: nodes.x.input_base64 is not base64"),
            (
                "kind: a\nnodes:\n  x: { input_base64: aGk=, input: hi }\n",
                "f:3:22: nodes.x.input_base64 goes without input; a node has one input",
            ),
            ("kind: [a\nnodes: {}\n", "f:2:6: illegal placement of ':' indicator"),
            ("", "f:1:1: holds nothing; a flow has a kind and nodes"),
            ("a: &x [*x]\n", "f:1:8: an alias stands inside of what it names, or names nothing"),
        ];
        for (text, want) in cases {
            assert_eq!(fault(text, Format::Yaml).await, want, "{text:?}");
        }
        let json =
            "{\n\t\"kind\": \"a\",\n\t\"nodes\": {\"x\": {\"input\": \"\\ud83d\\ude00\"}, \"y\": 5}\n}";
        assert_eq!(fault(json, Format::Json).await, "f:3:49: nodes.y is a number; an object is needed here");
        assert_eq!(fault("{\"kind\": a}", Format::Json).await, "f:1:10: expected value");
    }
}
