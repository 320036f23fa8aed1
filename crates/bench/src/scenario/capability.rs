//! Capability: a drain over ten capability classes, beside a plain drain in the same run.

use std::time::Instant;

use flowfabric::Submission;

use super::drain::drain;
use super::{add_store_cost, bar, of_rounds, rate};
use crate::bed::{Bed, Crew, NOOP};
use crate::figures::median;
use crate::report::Report;
use crate::{Args, Setting};

const COUNT: usize = 20_000;
const CLASSES: usize = 10;

fn word(n: usize) -> String {
    format!("class-{}", n % CLASSES)
}

/// Five workers with one to five words each; together they have all ten.
fn crews() -> Vec<Vec<String>> {
    let mut next = 0;
    (1..=5)
        .map(|size| {
            let words = (next..next + size).map(word).collect();
            next += size;
            words
        })
        .collect()
}

pub async fn run(args: &Args, setting: &Setting) -> anyhow::Result<Report> {
    let count = args.count.unwrap_or(COUNT);
    let (mut plain, mut routed) = (Vec::new(), Vec::new());
    let mut problems = Vec::new();
    let mut cost = (None, None);
    for round in 1..=args.rounds {
        let bed = Bed::make(args, setting, false).await?;
        bed.fill(count, |_| Submission::new(NOOP, &()), |_| ()).await?;
        plain.push(drain(&bed, args, count, &format!("plain, round {round}")).await?);
        problems.extend(bed.close().await?);

        let bed = Bed::make(args, setting, false).await?;
        bed.fill(count, |n| Submission::new(NOOP, &()).capability(&word(n)), |_| ()).await?;
        let bar = bar(&format!("routed, round {round}"), count as u64);
        let before = bed.cost()?;
        let started = Instant::now();
        let share = args.concurrency / 5;
        let crews: Vec<Crew> = crews().iter().map(|words| Crew::start(&bed, share.max(1), words)).collect();
        bed.until_completed(0, count as u64, |done| bar.set_position(done)).await?;
        routed.push(rate(count, started.elapsed()));
        bar.finish_and_clear();
        cost = (before, bed.cost()?);
        for crew in crews {
            crew.stop().await?;
        }
        problems.extend(bed.close().await?);
    }
    let without = median(&plain);
    let mut report = of_rounds(routed, count);
    report.problems = problems;
    report.more.insert("plain drain".to_owned(), without);
    report.more.insert("of plain".to_owned(), report.rate_per_s / without);
    add_store_cost(&mut report, cost.0, cost.1, count);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_have_every_class_between_them() {
        let all: std::collections::BTreeSet<String> = crews().into_iter().flatten().collect();
        assert_eq!(all.len(), CLASSES);
    }
}
