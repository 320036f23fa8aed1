//! Runs the simulator from the command line.
//!
//! `sim --seconds N | --seed N | --seeds N [--from N] [--bug NAME] [--steps N] [--trace] [--keep-going]`
//!
//! Seeds that once found something come first, then those from 1 on. With `--from`, and where a bug is to be found, they
//! are left out.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ff_sim::{Bug, Options, Summary, regressions, run_for, run_seed};

#[derive(Debug, Default)]
struct Arguments {
    seconds: Option<u64>,
    seed: Option<u64>,
    seeds: Option<u64>,
    from: Option<u64>,
    keep_going: bool,
    options: Options,
}

fn parse() -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--trace" {
            arguments.options.whole_trace = true;
            continue;
        }
        if word == "--keep-going" {
            arguments.keep_going = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} needs a number, not {value}"));
        match word.as_str() {
            "--seconds" => arguments.seconds = Some(number()?),
            "--seed" => arguments.seed = Some(number()?),
            "--seeds" => arguments.seeds = Some(number()?),
            "--from" => arguments.from = Some(number()?),
            "--steps" => arguments.options.steps = Some(number()?),
            "--bug" => {
                let names = || Bug::ALL.iter().map(|bug| bug.name()).collect::<Vec<_>>().join(", ");
                let bug =
                    Bug::from_name(&value).ok_or_else(|| format!("no bug {value}; there are {}", names()))?;
                arguments.options.bug = Some(bug);
            }
            _ => return Err(format!("{word} is unknown; see the top of sim.rs")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let summary = run(&arguments, started);
    print(&summary, started.elapsed());
    let found = !summary.violations.is_empty();
    // With a bug switched on, finding nothing is the failure.
    if found == arguments.options.bug.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(arguments: &Arguments, started: Instant) -> Summary {
    let options = &arguments.options;
    if let Some(seed) = arguments.seed {
        let report = run_seed(seed, options);
        println!("trace hash {:016x}", report.trace_hash);
        let violations: Vec<_> = report.violation.into_iter().collect();
        let (steps, commands, faults) = (report.steps, report.commands, report.faults);
        return Summary { seeds: 1, steps, commands, faults, violations };
    }
    let seconds = arguments.seconds.map(Duration::from_secs);
    let seconds = seconds.or(arguments.seeds.is_none().then_some(Duration::from_secs(10)));
    let should_stop = |summary: &Summary| {
        (!arguments.keep_going && !summary.violations.is_empty())
            || seconds.is_some_and(|seconds| started.elapsed() >= seconds)
            || arguments.seeds.is_some_and(|seeds| summary.seeds >= seeds)
    };
    let first = arguments.from.is_none() && options.bug.is_none();
    let found = regressions::seeds().filter(|_| first);
    run_for(should_stop, found.chain(arguments.from.unwrap_or(1)..), options, |_| {})
}

fn print(summary: &Summary, elapsed: Duration) {
    for violation in &summary.violations {
        println!("{violation}\n");
    }
    let Summary { seeds, steps, commands, .. } = summary;
    println!("{seeds} seeds, {steps} steps, {commands} commands, {} faults:", summary.faults.total());
    for (fault, count) in summary.faults.iter() {
        println!("  {count:>8} {}", fault.name());
    }
    let rate = *steps as f64 / elapsed.as_secs_f64().max(0.001);
    println!("{} violations, {rate:.0} steps/s", summary.violations.len());
}
