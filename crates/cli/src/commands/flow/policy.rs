//! `flowfabric flow policy`

use clap::{Args, ValueEnum};
use flowfabric::{FlowId, Join, OnSatisfied};
use serde_json::json;

use super::super::operate::By;
use super::member;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// Say how many of its upstreams an open node needs, before it has its first
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric flow policy 0197f3a2-6f3e-7c41-9b1d-0242ac120002 pick any_of
  flowfabric flow policy 0197f3a2-6f3e-7c41-9b1d-0242ac120002 vote quorum --k 3 --let-run

The node is named, or given by its id.")]
pub struct Policy {
    #[arg(value_name = "ID")]
    id: FlowId,
    #[arg(value_name = "NODE")]
    node: String,
    #[arg(value_name = "POLICY")]
    policy: Word,
    /// How many, of a quorum
    #[arg(long, value_name = "COUNT", required_if_eq("policy", "quorum"))]
    k: Option<u32>,
    /// Do not cancel the rest when it has what it needs
    #[arg(long)]
    let_run: bool,
    /// Only if the flow has this revision: nobody else has changed its graph meanwhile
    #[arg(long, value_name = "NUMBER")]
    expected_revision: Option<u64>,
    #[command(flatten)]
    by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Word {
    AllOf,
    AnyOf,
    Quorum,
}

impl Policy {
    fn join(&self) -> Result<Join, Problem> {
        let on_satisfied = if self.let_run { OnSatisfied::LetRun } else { OnSatisfied::CancelRemaining };
        match (self.policy, self.k) {
            (Word::AllOf, None) if self.let_run => Err(Problem::invalid(
                "--let-run goes with any_of and quorum; who waits for all cancels nothing",
            )),
            (Word::AllOf, None) => Ok(Join::AllOf),
            (Word::AnyOf, None) => Ok(Join::AnyOf { on_satisfied }),
            (Word::Quorum, Some(k)) => Ok(Join::Quorum { k, on_satisfied }),
            _ => Err(Problem::invalid("--k goes with quorum, and a quorum needs it")),
        }
    }

    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let join = self.join()?;
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let run = fabric.flow_run(self.id);
            let node = member(&run, &self.node).await?;
            let mut operation = run.set_join(node, join);
            if let Some(revision) = self.expected_revision {
                operation = operation.expected_revision(revision);
            }
            let already = self.by.apply(operation).await?;
            match settings.json {
                true => view::document(&json!({ "node": node, "join": join, "already": already })),
                false => view::line(&format!("{node}  {}", if already { "already set" } else { "set" })),
            }
        })
        .await
    }
}
