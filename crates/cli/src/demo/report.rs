//! What happened, counted from the store and not from what the parts believe.

use std::collections::BTreeMap;
use std::time::Duration;

use flowfabric::{AttemptOutcome, Fabric, PublicState};
use serde_json::{Value, json};

use super::parts::{Part, TAG, Verdict};
use crate::problem::{Exit, Problem};
use crate::view;

#[derive(Debug)]
pub struct Report {
    verdicts: Vec<Verdict>,
    /// How many executions of each part ended how.
    ended: BTreeMap<(&'static str, PublicState), u64>,
    counts: BTreeMap<&'static str, u64>,
    took: Duration,
}

impl Report {
    pub async fn gather(fabric: &Fabric, verdicts: Vec<Verdict>, took: Duration) -> Result<Report, Problem> {
        let mut ended: BTreeMap<(&'static str, PublicState), u64> = BTreeMap::new();
        let states = [
            PublicState::Completed,
            PublicState::Failed,
            PublicState::Cancelled,
            PublicState::Expired,
            PublicState::Skipped,
        ];
        let names = ["submitted", "attempts", "retries", "leases_lost", "recovered"];
        let words = names.into_iter().chain(states.into_iter().map(PublicState::word));
        let mut counts: BTreeMap<&'static str, u64> = words.map(|word| (word, 0)).collect();
        let mut add = |word, number| *counts.entry(word).or_default() += number;
        let page = fabric.search().limit(1_000).await?;
        for execution in &page.executions {
            let state = execution.public_state();
            let part = execution.live.tags.get(TAG).and_then(Part::from_word);
            *ended.entry((part.map_or("", Part::word), state)).or_default() += 1;
            let attempts = fabric.attempts(execution.id).await?;
            let outcome = |wanted| {
                attempts.iter().filter(|it| it.end.as_ref().is_some_and(|end| end.outcome == wanted)).count()
                    as u64
            };
            let lost = outcome(AttemptOutcome::LeaseLost);
            add("submitted", 1);
            add(state.word(), 1);
            add("attempts", attempts.len() as u64);
            // A failure after which the execution did not end was tried again.
            add("retries", outcome(AttemptOutcome::Failed) - u64::from(state == PublicState::Failed));
            add("leases_lost", lost);
            add("recovered", u64::from(lost > 0 && state == PublicState::Completed));
        }
        Ok(Report { verdicts, ended, counts, took })
    }

    fn ended(&self, part: Part) -> impl Iterator<Item = (PublicState, u64)> {
        self.ended
            .iter()
            .filter(move |((word, _), _)| *word == part.word())
            .map(|((_, state), n)| (*state, *n))
    }

    /// Everything ended as it should, by the parts' own checks and by the numbers in the store.
    fn is_ok(&self, verdict: &Verdict) -> bool {
        verdict.ok && self.ended(verdict.part).eq(verdict.part.ends_as())
    }

    fn all_ok(&self) -> bool {
        let submitted: u64 = Part::ALL.into_iter().map(Part::count).sum();
        self.counts.get("submitted") == Some(&submitted) && self.verdicts.iter().all(|it| self.is_ok(it))
    }

    pub fn print(&self, left: &Left, json: bool) -> Result<(), Problem> {
        if json {
            view::document(&self.document(left.store()))?;
        } else {
            self.print_table()?;
            left.print_next()?;
        }
        if self.all_ok() { Ok(()) } else { Err(self.complaint(json)) }
    }

    fn complaint(&self, json: bool) -> Problem {
        if json {
            return Problem::told(Exit::Error);
        }
        let bad: Vec<&str> =
            self.verdicts.iter().filter(|it| !self.is_ok(it)).map(|it| it.part.title()).collect();
        Problem::error(format!("not everything ended as it should: {}", bad.join(", ")))
            .hint("`flowfabric demo --keep DIR` keeps the store, to look at it")
    }

    fn document(&self, kept: Option<&str>) -> Value {
        let part = |verdict: &Verdict| {
            let states = self.ended(verdict.part).map(|(state, n)| (state.word().to_owned(), json!(n)));
            let expected =
                verdict.part.ends_as().into_iter().map(|(state, n)| (state.word().to_owned(), json!(n)));
            let mut value = json!({
                "part": verdict.part.word(),
                "ok": self.is_ok(verdict),
                "expected": expected.collect::<serde_json::Map<_, _>>(),
                "ended": states.collect::<serde_json::Map<_, _>>(),
                "detail": verdict.detail,
            });
            if let Some(facts) = &verdict.facts {
                value["facts"] = facts.clone();
            }
            value
        };
        json!({
            "ok": self.all_ok(),
            "elapsed_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "counts": self.counts,
            "parts": self.verdicts.iter().map(part).collect::<Vec<_>>(),
            "store": kept,
        })
    }

    fn print_table(&self) -> Result<(), Problem> {
        for verdict in self.verdicts.iter().filter(|it| !it.drawing.is_empty()) {
            view::line(&format!("\nThe {}, as `flowfabric flow graph` draws it:\n", verdict.part.title()))?;
            view::line(&verdict.drawing.join("\n"))?;
        }
        view::line("")?;
        let mut table = view::table(&["", "what", "ended as", "how"]);
        for verdict in &self.verdicts {
            let ended: Vec<String> =
                self.ended(verdict.part).map(|(state, count)| format!("{count} {state}")).collect();
            let mark = if self.is_ok(verdict) { "ok" } else { "NOT OK" };
            let title = verdict.part.title();
            table.add_row(vec![mark.to_owned(), title.to_owned(), ended.join(", "), verdict.detail.clone()]);
        }
        view::print_table(&table)?;
        let count = |word| self.counts.get(word).copied().unwrap_or(0);
        view::line(&format!(
            "\n{} executions, {} attempts, {} retries, {} leases lost and {} recovered, in {:.1} s",
            count("submitted"),
            count("attempts"),
            count("retries"),
            count("leases_lost"),
            count("recovered"),
            self.took.as_secs_f64()
        ))
    }
}

/// What is left of the demonstration.
#[derive(Debug)]
pub enum Left {
    Nothing,
    Store(String),
    /// A server, at this address, on this store.
    Server(String, Option<String>),
}

impl Left {
    fn store(&self) -> Option<&str> {
        match self {
            Left::Nothing => None,
            Left::Store(url) => Some(url),
            Left::Server(_, store) => store.as_deref(),
        }
    }

    fn print_next(&self) -> Result<(), Problem> {
        let option = match self {
            Left::Nothing => {
                return view::line(
                    "The store was temporary; `flowfabric demo --keep DIR` keeps it.\n\nTry next:\n  \
                     flowfabric submit greet --input '{\"name\":\"Ada\"}'\n  \
                     flowfabric worker --kind greet --exec 'cat'\n  \
                     flowfabric list",
                );
            }
            Left::Store(url) => {
                view::line(&format!("The store is kept: {url}\n\nTry next:"))?;
                format!("--store {url}")
            }
            Left::Server(address, _) => {
                view::line("Try next, in another terminal:")?;
                view::line(&format!("  curl http://{address}/v1/executions?limit=1"))?;
                format!("--server http://{address}")
            }
        };
        view::line(&format!("  flowfabric {option} list --tag {TAG}=worker_loss"))?;
        view::line(&format!("  flowfabric {option} flow list"))?;
        view::line(&format!("  flowfabric {option} tail --from beginning --family operator --timeout 1s"))?;
        view::line(&format!("  flowfabric {option} counts"))
    }
}
