//! A graph while it is drawn, and everything that can be wrong with it before it is sent.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use ff_core::commands::{NewChild, NewEdge, NewNode};
use ff_core::flow::{Join, On, OnSatisfied};
use ff_core::name::{FieldName, NodeName};
use ff_core::rejection::Invalid;
use ff_core::tags::Tags;
use ff_core::{ExecutionId, Kind, Ms};
use rustc_hash::{FxHashMap, FxHashSet};

use super::drawing::Drawing;
use super::growth::Try;
use crate::{Error, Fabric, Submission};

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    All,
    Any,
    Quorum(u32),
}

/// Where an edge comes from.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub upstream: ExecutionId,
    pub on: On,
    pub field: Option<String>,
}

/// A node to be.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    id: ExecutionId,
    kind: String,
    pub work: Submission,
    pub name: Option<String>,
    wait: Option<Wait>,
    pub let_run: bool,
    pub open: bool,
    /// One delay for all upstreams but the first, or one for each of them.
    pub hedge: Option<Vec<Ms>>,
    /// It is a flow of its own.
    pub child: Option<Drawing>,
}

/// Nodes and edges as they were drawn, and the first thing that was wrong.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    drafts: Vec<Draft>,
    places: FxHashMap<ExecutionId, usize>,
    /// By downstream, in the order in which they were drawn.
    edges: Vec<(ExecutionId, Line)>,
    problem: Option<Error>,
    sent: bool,
    /// What names that nobody gave begin with.
    prefix: String,
    /// Nodes of any name may be there already, so names that nobody gave end with a part of the node's id.
    grows: bool,
}

/// A node with the edges that lead to it, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub node: NewNode,
    pub edges: Vec<NewEdge>,
}

/// What was drawn, each node after those it waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub nodes: Vec<Finished>,
    /// Edges to nodes that are there already.
    pub loose: Vec<NewEdge>,
}

impl Sketch {
    pub fn add(&mut self, id: ExecutionId, kind: &str, work: Submission) {
        self.places.insert(id, self.drafts.len());
        let (name, wait, hedge, child) = (None, None, None, None);
        self.drafts.push(Draft {
            id,
            kind: kind.to_owned(),
            work,
            name,
            wait,
            let_run: false,
            open: false,
            hedge,
            child,
        });
    }

    /// Names that nobody gives are to begin with this.
    pub fn set_prefix(&mut self, prefix: String) {
        self.prefix = prefix;
    }

    /// It is added to a flow whose names are not known here.
    pub fn set_grows(&mut self) {
        self.grows = true;
    }

    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty() && self.edges.is_empty() && self.problem.is_none()
    }

    pub fn knows(&self, id: ExecutionId) -> bool {
        self.places.contains_key(&id)
    }

    /// Whether what was drawn here is stored.
    pub fn is_sent(&self) -> bool {
        self.sent
    }

    /// Notes that it is sent, and says whether it was before.
    pub fn send(&mut self) -> Try {
        if std::mem::replace(&mut self.sent, true) { Try::Again } else { Try::First }
    }

    pub fn has_open_nodes(&self) -> bool {
        self.drafts.iter().any(|draft| draft.open)
    }

    /// The first thing that is wrong is what the sender hears.
    pub fn refuse(&mut self, error: Error) {
        self.problem.get_or_insert(error);
    }

    pub fn edit(&mut self, id: ExecutionId, change: impl FnOnce(&mut Draft)) {
        match self.places.get(&id) {
            Some(place) => change(&mut self.drafts[*place]),
            None => self.refuse(Error::invalid("node", "is in the flow already; only new nodes are drawn")),
        }
    }

    /// Says what a node waits for. A member that is there already waits for what it was added with.
    pub fn join(&mut self, id: ExecutionId, wait: Wait) {
        if self.sent {
            return;
        }
        let Some(place) = self.places.get(&id).copied() else {
            if wait != Wait::All {
                let problem = "is in the flow already; its policy is set before it has its first edge";
                self.refuse(Error::invalid("node", problem));
            }
            return;
        };
        match self.drafts[place].wait.replace(wait) {
            None => {}
            Some(Wait::All) if wait == Wait::All => {}
            Some(_) => {
                let label = self.label(place);
                let problem = "is said twice; a node waits for all of its upstreams (after), or for one (any_of), \
                               or for some (quorum)";
                self.refuse(Invalid::new(format!("nodes.{label}.join"), problem).into());
            }
        }
    }

    pub fn connect(&mut self, downstream: ExecutionId, line: Line) {
        if self.sent {
            let problem = "joins nodes of a flow that is submitted already; draw it with FlowRun::grow";
            return self.refuse(Error::invalid("edge", problem));
        }
        self.edges.push((downstream, line));
    }

    /// What a node is called in messages.
    fn label(&self, place: usize) -> String {
        let draft = &self.drafts[place];
        draft.name.clone().unwrap_or_else(|| draft.kind.clone())
    }

    /// The first thing that was wrong.
    pub fn check(&self) -> Result<(), Error> {
        self.problem.clone().map_or(Ok(()), Err)
    }

    /// Checks everything and makes it ready to be sent.
    pub fn plan(&self, fabric: &Fabric) -> Result<Plan, Error> {
        self.check()?;
        for (place, draft) in self.drafts.iter().enumerate() {
            if let Some(problem) = draft.work.problem() {
                return Err(named(problem.clone(), &self.label(place)));
            }
        }
        let names = self.names()?;
        let label = |id: &ExecutionId| match self.places.get(id) {
            Some(place) => format!("{:?}", &*names[*place]),
            None => format!("member {id}"),
        };
        let about = |id: &ExecutionId, problem: String| match self.places.get(id) {
            Some(place) => Invalid::new(format!("nodes.{}", names[*place]), problem).into(),
            None => Error::invalid("edge", format!("to member {id}: it {problem}")),
        };
        let mut seen = FxHashSet::default();
        let mut inbound: Vec<Vec<NewEdge>> = vec![Vec::new(); self.drafts.len()];
        let mut plan = Plan::default();
        for (downstream, line) in &self.edges {
            if line.upstream == *downstream {
                return Err(about(downstream, "has an edge from itself".to_owned()));
            }
            if !seen.insert((line.upstream, *downstream)) {
                let problem = format!("has an edge from {} twice", label(&line.upstream));
                return Err(about(downstream, problem));
            }
            let mut edge = NewEdge::new(line.upstream, *downstream);
            edge.on = line.on;
            edge.field = line.field.as_deref().map(FieldName::parse).transpose()?;
            match self.places.get(downstream) {
                Some(place) => inbound[*place].push(edge),
                None => plan.loose.push(edge),
            }
        }
        for place in self.in_order(&inbound, &names)? {
            let edges = std::mem::take(&mut inbound[place]);
            let node = self.finish(place, names[place].clone(), &edges, fabric)?;
            plan.nodes.push(Finished { node, edges });
        }
        Ok(plan)
    }

    /// The names that were given, and for the rest the kind, with something behind it where that is or may be taken.
    fn names(&self) -> Result<Vec<NodeName>, Error> {
        let mut taken = BTreeSet::new();
        for name in self.drafts.iter().filter_map(|draft| draft.name.as_deref()) {
            if !taken.insert(name.to_owned()) {
                return Err(Error::invalid("name", format!("{name:?} is given to two nodes of one flow")));
            }
        }
        let mut names = Vec::with_capacity(self.drafts.len());
        let mut numbers = FxHashMap::<&str, u32>::default();
        for draft in &self.drafts {
            let name = match &draft.name {
                Some(name) => name.clone(),
                None if self.grows => {
                    let id = draft.id.to_string();
                    format!("{}-{}", draft.kind, id.rsplit('-').next().unwrap_or(&id))
                }
                None => {
                    let kind = draft.kind.as_str();
                    let number = numbers.entry(kind).or_default();
                    loop {
                        *number += 1;
                        let name = if *number == 1 { kind.to_owned() } else { format!("{kind}-{number}") };
                        let name = format!("{}{name}", self.prefix);
                        if taken.insert(name.clone()) {
                            break name;
                        }
                    }
                }
            };
            names.push(NodeName::parse(&name)?);
        }
        Ok(names)
    }

    /// Each node after its upstreams, otherwise as they were drawn.
    fn in_order(&self, inbound: &[Vec<NewEdge>], names: &[NodeName]) -> Result<Vec<usize>, Error> {
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); self.drafts.len()];
        let mut open = vec![0usize; self.drafts.len()];
        for (place, edges) in inbound.iter().enumerate() {
            for upstream in edges.iter().filter_map(|edge| self.places.get(&edge.upstream)) {
                followers[*upstream].push(place);
                open[place] += 1;
            }
        }
        let mut free: BinaryHeap<Reverse<usize>> =
            (0..open.len()).filter(|place| open[*place] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(open.len());
        while let Some(Reverse(place)) = free.pop() {
            order.push(place);
            for follower in &followers[place] {
                open[*follower] -= 1;
                if open[*follower] == 0 {
                    free.push(Reverse(*follower));
                }
            }
        }
        if order.len() == open.len() {
            return Ok(order);
        }
        let cycle = self.cycle(inbound, &open);
        let path: Vec<&str> = cycle.iter().map(|place| names[*place].as_str()).collect();
        let field = path.first().map_or_else(|| "edges".to_owned(), |name| format!("nodes.{name}"));
        Err(Invalid::new(field, format!("waits for itself: {}", path.join(" → "))).into())
    }

    /// One cycle among the nodes that never became free, from a node to itself.
    fn cycle(&self, inbound: &[Vec<NewEdge>], open: &[usize]) -> Vec<usize> {
        let stuck = |place: &usize| open[*place] > 0;
        let mut path: Vec<usize> = Vec::new();
        let mut at = (0..open.len()).find(stuck);
        while let Some(place) = at {
            if let Some(start) = path.iter().position(|it| *it == place) {
                let mut cycle: Vec<usize> = path[start..].iter().rev().copied().collect();
                cycle.insert(0, place);
                return cycle;
            }
            path.push(place);
            let upstreams = inbound[place].iter().filter_map(|edge| self.places.get(&edge.upstream));
            at = upstreams.copied().find(stuck);
        }
        path
    }

    fn finish(
        &self,
        place: usize,
        name: NodeName,
        edges: &[NewEdge],
        fabric: &Fabric,
    ) -> Result<NewNode, Error> {
        let draft = &self.drafts[place];
        let invalid = |what: &str, problem: String| Invalid::new(format!("nodes.{name}.{what}"), problem);
        let on_satisfied = if draft.let_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
        let total = edges.len();
        let join = match draft.wait.unwrap_or(Wait::All) {
            Wait::All if draft.let_run => {
                let problem =
                    "goes with any_of and quorum; a node that waits for all cancels nothing".to_owned();
                return Err(invalid("let_run", problem).into());
            }
            Wait::All if draft.hedge.is_some() => {
                let problem = "goes with any_of and quorum; a node that waits for all needs all".to_owned();
                return Err(invalid("hedge", problem).into());
            }
            Wait::All => Join::AllOf,
            Wait::Any if total == 0 && !draft.open => {
                return Err(invalid("any_of", "has no upstreams; name one at least".to_owned()).into());
            }
            Wait::Any => Join::AnyOf { on_satisfied },
            Wait::Quorum(k) if k == 0 || (k as usize > total && !draft.open) => {
                let problem = format!("is {k}, and it has {total} upstreams; allowed are 1 to {total}");
                return Err(invalid("quorum", problem).into());
            }
            Wait::Quorum(k) => Join::Quorum { k, on_satisfied },
        };
        let hedge = match draft.hedge.as_deref() {
            None => Vec::new(),
            Some(delays) if delays.len() == 1 || delays.len() + 1 == total => {
                let delay = |n: usize| if delays.len() == 1 { delays[0] } else { delays[n - 1] };
                let upstreams = edges.iter().enumerate();
                upstreams.map(|(n, edge)| (edge.upstream, if n == 0 { 0 } else { delay(n) })).collect()
            }
            Some(delays) => {
                let problem = format!(
                    "has {} delays for {total} upstreams; give one, or one for each upstream but the first",
                    delays.len()
                );
                return Err(invalid("hedge", problem).into());
            }
        };
        let create = draft.work.clone().member(fabric, draft.id).map_err(|error| named(error, &name))?;
        let child = draft.child.as_ref().map(|child| self::child(child, &create.kind, fabric)).transpose();
        let child = child.map_err(|error| inside(error, &name))?.map(Box::new);
        Ok(NewNode { create, name: Some(name), join, open: draft.open, hedge, child })
    }
}

/// The flow that a node is.
fn child(drawing: &Drawing, kind: &Kind, fabric: &Fabric) -> Result<NewChild, Error> {
    let plan = drawing.sketch().plan(fabric)?;
    if !plan.loose.is_empty() {
        return Err(Error::invalid("edge", "leads out of a child flow; join its node instead"));
    }
    let (nodes, edges): (Vec<_>, Vec<_>) = plan.nodes.into_iter().map(|it| (it.node, it.edges)).unzip();
    let (id, kind, edges) = (drawing.flow(), kind.clone(), edges.concat());
    Ok(NewChild { id, kind, tags: Tags::default(), nodes, edges, sealed: true })
}

/// Says which node it is about.
fn named(error: Error, name: &str) -> Error {
    match error {
        Error::Invalid(Invalid { field, problem }) => {
            Error::Invalid(Invalid::new(format!("nodes.{name}.{field}"), problem))
        }
        other => other,
    }
}

/// Says in which node it is that is a flow of its own.
fn inside(error: Error, name: &str) -> Error {
    match error {
        Error::Invalid(Invalid { field, problem }) => {
            let field = field.strip_prefix("nodes.").unwrap_or(&field);
            Error::Invalid(Invalid::new(format!("nodes.{name}.flow.{field}"), problem))
        }
        other => other,
    }
}
