//! `flowfabric get`

use clap::Args;
use flowfabric::{ExecutionId, Fabric};
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Show one execution with its input and its result
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric get 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --attempts
  flowfabric get 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --json | jq .result

With --json, what this token may not see is null, and named in the list hidden.")]
pub struct Get {
    #[arg(value_name = "ID")]
    id: ExecutionId,
    /// Show every attempt: worker, times, outcome, error
    #[arg(long)]
    attempts: bool,
}

impl Get {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::Existing, Patience::Short, |fabric| self.show(fabric, settings.json))
            .await
    }

    async fn show(self, fabric: Fabric, json: bool) -> Result<(), Problem> {
        let execution = fabric.get(self.id).await?;
        let input = match fabric.input(self.id).await {
            Err(hidden) if hidden.code() == "forbidden" => None,
            input => Some(input?),
        };
        let result = fabric.result(self.id).await?;
        // Whoever may not see the one may not see the other.
        let stored = execution.end().is_some_and(|end| end.result_bytes.is_some());
        let hides_result = input.is_none() && result.is_none() && stored;
        let attempts = if self.attempts { Some(fabric.attempts(self.id).await?) } else { None };
        if json {
            let mut value = view::execution_value(&execution);
            value["input"] = json!(input.as_ref().map(view::payload_value));
            value["result"] = json!(result.as_ref().map(view::payload_value));
            let hidden = [("input", input.is_none()), ("result", hides_result)];
            let hidden: Vec<&str> = hidden.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
            if !hidden.is_empty() {
                value["hidden"] = json!(hidden);
            }
            if let Some(attempts) = &attempts {
                value["attempts"] = attempts.iter().map(view::attempt_value).collect();
            }
            return view::document(&value);
        }
        let mut fields = view::execution_fields(&execution, parse::now());
        if execution.live.stepped {
            let steps = fabric.run(self.id).steps().await?;
            let names: Vec<String> = steps.iter().map(|step| step.key.to_string()).collect();
            fields.push(("steps", view::cut(&names.join(", "), 200)));
        }
        let hidden = || "hidden from this token".to_owned();
        fields.push(("input", input.as_ref().map_or_else(hidden, view::payload_text)));
        fields.extend(result.as_ref().map(|it| ("result", view::payload_text(it))));
        fields.extend(hides_result.then(|| ("result", hidden())));
        view::print_fields(&fields)?;
        if let Some(attempts) = attempts.filter(|it| !it.is_empty()) {
            view::line("")?;
            view::print_table(&view::attempts_table(&attempts))?;
        }
        Ok(())
    }
}
