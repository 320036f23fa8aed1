//! `flowfabric flow edges`

use clap::Args;
use flowfabric::{Direction, Edge, FlowId};
use serde_json::{Value, json};

use super::member;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{flow_view, parse, view};

/// List the edges that lead to a node of a flow, or away from it; or show one
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow edges 0197f3a2-6f3e-7c41-9b1d-0242ac120002 bind
  flowfabric flow edges 0197f3a2-6f3e-7c41-9b1d-0242ac120002 head --out --limit 10
  flowfabric flow edges 0197f3a2-6f3e-7c41-9b1d-0242ac120002 bind --from page-3

Nodes are named, or given by their ids.")]
pub struct Edges {
    #[arg(value_name = "ID")]
    id: FlowId,
    #[arg(value_name = "NODE")]
    node: String,
    /// Those that lead away from it
    #[arg(long)]
    out: bool,
    /// Only the edge that comes from this node
    #[arg(long, value_name = "NODE", conflicts_with_all = ["out", "after", "limit"])]
    from: Option<String>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only edges after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
}

impl Edges {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            let node = member(&run, &self.node).await?;
            if let Some(from) = &self.from {
                let edge = run.edge(member(&run, from).await?, node).await?;
                return show(&edge, settings.json);
            }
            let direction = if self.out { Direction::Out } else { Direction::In };
            let page = run.edges(node, direction, self.after, self.limit as usize).await?;
            if settings.json {
                let edges: Vec<Value> = page.edges.iter().map(|it| flow_view::edge_value(it)).collect();
                return view::document(&json!({ "node": node, "edges": edges, "next_after": page.next }));
            }
            let mut table =
                view::table(&["number", if self.out { "to" } else { "from" }, "on", "as", "state"]);
            for edge in &page.edges {
                let other = if self.out { edge.key.downstream } else { edge.key.upstream };
                table.add_row(vec![
                    edge.number.to_string(),
                    other.to_string(),
                    edge.on.word().to_owned(),
                    edge.field.as_ref().map_or_else(String::new, |it| it.to_string()),
                    edge.state().word().to_owned(),
                ]);
            }
            view::print_table(&table)?;
            match page.next {
                Some(next) => view::line(&format!("more: --after {next}")),
                None => Ok(()),
            }
        })
        .await
    }
}

fn show(edge: &Edge, json: bool) -> Result<(), Problem> {
    if json {
        return view::document(&flow_view::edge_value(edge));
    }
    let created = view::time_and_age(edge.created_at, parse::now());
    let mut fields = vec![
        ("number", edge.number.to_string()),
        ("from", edge.key.upstream.to_string()),
        ("to", edge.key.downstream.to_string()),
        ("on", edge.on.word().to_owned()),
        ("state", edge.state().word().to_owned()),
        ("created", format!("{created} by {}", edge.created_by)),
    ];
    fields.extend(edge.field.as_ref().map(|field| ("as", field.to_string())));
    view::print_fields(&fields)
}
