//! Flows written as a line of text, played by a worker that ends members by name.

mod building;
mod cancelling;
mod children;
mod growing;
mod hedging;
mod joining;
mod large;
mod oracle;
mod passing;
mod replaying;
mod retention;

use std::collections::BTreeMap;

use super::{CreateFlow, NewEdge, NewNode};
use crate::commands::testing::*;
use crate::commands::{Claim, Command, Create, Fail};
use crate::execution::{Execution, Fence};
use crate::flow::{Flow, FlowState, Join, On, OnSatisfied};
use crate::id::{ExecutionId, FlowId, Route};
use crate::rejection::Rejection;
use crate::reply::Reply;

/// A flow and who its members are.
pub(super) struct Play {
    pub bench: Bench,
    pub flow: FlowId,
    pub ids: BTreeMap<String, ExecutionId>,
    fences: BTreeMap<ExecutionId, Fence>,
}

/// Reads a policy: `all`, `any`, `2` for a quorum of two; `~` after it lets the rest run.
pub(super) fn join(text: &str) -> Join {
    let (text, on_satisfied) = match text.strip_suffix('~') {
        Some(text) => (text, OnSatisfied::LetRun),
        None => (text, OnSatisfied::CancelRemaining),
    };
    match text {
        "all" => Join::AllOf,
        "any" => Join::AnyOf { on_satisfied },
        k => Join::Quorum { k: k.parse().unwrap(), on_satisfied },
    }
}

impl Play {
    pub fn new() -> Play {
        Play::on(Bench::new())
    }

    pub fn on(bench: Bench) -> Play {
        let flow = FlowId::from_parts(bench.now, Route(bench.ws.partition.0), 1_000_000);
        Play { bench, flow, ids: BTreeMap::new(), fences: BTreeMap::new() }
    }

    /// A sealed flow that has been created.
    pub fn of(text: &str) -> Play {
        let mut play = Play::new();
        play.create(text);
        play
    }

    pub fn create(&mut self, text: &str) {
        let command = CreateFlow { sealed: true, ..self.sketch(text) };
        assert!(matches!(self.bench.ok(command), Reply::Flow { existing: false, .. }));
    }

    pub fn create_open(&mut self, text: &str) {
        let command = self.sketch(text);
        self.bench.ok(command);
    }

    pub fn sketch(&mut self, text: &str) -> CreateFlow {
        let (nodes, edges) = self.parts(text);
        CreateFlow { nodes, edges, ..empty_flow(self.flow) }
    }

    /// Reads nodes (`a`, `join:any~`, an open one `b?`) and edges (`a>b` on success, `a!b` on failure, `a*b`
    /// on any ending).
    pub fn parts(&mut self, text: &str) -> (Vec<NewNode>, Vec<NewEdge>) {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        for word in text.split_whitespace() {
            let on = [('>', On::Success), ('!', On::Failure), ('*', On::Always)];
            if let Some((at, on)) = on.iter().find_map(|(c, on)| Some((word.find(*c)?, *on))) {
                let (upstream, downstream) = (self.id(&word[..at]), self.id(&word[at + 1..]));
                edges.push(NewEdge { on, ..NewEdge::new(upstream, downstream) });
                continue;
            }
            let (word, open) = word.strip_suffix('?').map_or((word, false), |word| (word, true));
            let (name, policy) = word.split_once(':').unwrap_or((word, "all"));
            nodes.push(NewNode { join: join(policy), open, ..self.node(name) });
        }
        (nodes, edges)
    }

    pub fn node(&mut self, name: &str) -> NewNode {
        let id = *self.ids.entry(name.to_owned()).or_insert_with(|| self.bench.next_id());
        let mut create = self.bench.submission();
        create.policy.max_attempts = 1;
        NewNode { name: Some(name.parse().unwrap()), ..NewNode::new(Create { id, ..create }) }
    }

    /// The id of a node, also of one that is in no flow.
    pub fn id(&mut self, name: &str) -> ExecutionId {
        *self.ids.entry(name.to_owned()).or_insert_with(|| self.bench.next_id())
    }

    pub fn run(&mut self, command: impl Into<Command>) -> Result<Reply, Rejection> {
        let command = command.into();
        command.validate(&self.bench.ws.limits)?;
        self.bench.run(command)
    }

    pub fn refused(&mut self, command: impl Into<Command>) -> &'static str {
        self.run(command).expect_err("the command is refused").code()
    }

    /// Claims whatever is ready.
    pub fn claim_all(&mut self) {
        let poll = std::sync::Arc::new(self.bench.poll());
        loop {
            let Reply::Claimed(claimed) = self.bench.ok(Claim { poll: poll.clone(), max: 1_000 }) else {
                unreachable!("a claim is answered so")
            };
            self.fences.extend(claimed.iter().map(|it| (it.id, it.fence())));
            if claimed.is_empty() {
                return;
            }
        }
    }

    pub fn fence(&mut self, name: &str) -> Fence {
        let id = self.ids[name];
        if self.bench.current(id).is_none_or(|it| it.lease().is_none()) {
            self.claim_all();
        }
        assert!(self.bench.current(id).is_some_and(|it| it.lease().is_some()), "{name} does not run");
        self.fences[&id]
    }

    pub fn complete(&mut self, names: &str) {
        for name in names.split_whitespace() {
            let fence = self.fence(name);
            self.bench.ok(complete(fence));
        }
    }

    pub fn fail(&mut self, names: &str) {
        for name in names.split_whitespace() {
            let fence = self.fence(name);
            self.bench.ok(Fail { retry_after_ms: None, ..fail_fatally(fence) });
        }
    }

    pub fn cancel(&mut self, name: &str) {
        self.bench.ok(cancel(self.ids[name], None));
    }

    pub fn get(&self, name: &str) -> &Execution {
        self.bench.get(self.ids[name])
    }

    pub fn state(&self, name: &str) -> &'static str {
        self.get(name).public_state().word()
    }

    pub fn reason(&self, name: &str) -> &'static str {
        self.get(name).reason().word()
    }

    /// The states of these members, one word each.
    pub fn states(&self, names: &str) -> Vec<&'static str> {
        names.split_whitespace().map(|name| self.state(name)).collect()
    }

    pub fn record(&self) -> &Flow {
        &self.bench.store.flows[&self.flow]
    }

    pub fn flow_state(&self) -> FlowState {
        self.record().state()
    }

    pub fn facts(&self, name: &str) -> Vec<&'static str> {
        self.bench.facts(self.ids[name])
    }
}
