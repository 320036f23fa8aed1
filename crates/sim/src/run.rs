//! Running seeds, one or many.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bug::Bug;
use crate::fault::Tally;
use crate::world::World;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How many events each seed has until the faults stop; drawn by the seed if absent.
    pub steps: Option<u64>,
    pub bug: Option<Bug>,
    /// Keep every line of the trace instead of the last ones.
    pub whole_trace: bool,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub seed: u64,
    pub bug: Option<Bug>,
    pub steps: Option<u64>,
    pub text: String,
    /// What happened last.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.text)?;
        write!(f, "replay: cargo xtask sim --seed {}", self.seed)?;
        if let Some(bug) = self.bug {
            write!(f, " --bug {}", bug.name())?;
        }
        if let Some(steps) = self.steps {
            write!(f, " --steps {steps}")?;
        }
        Ok(())
    }
}

/// What one seed did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    pub steps: u64,
    pub commands: u64,
    pub faults: Tally,
    /// Two runs of one seed have the same.
    pub trace_hash: u64,
    pub violation: Option<Violation>,
}

/// Runs one seed from its beginning to the end of everything it began.
pub fn run_seed(seed: u64, options: &Options) -> Report {
    let mut world = World::new(seed, options.steps, options.bug, options.whole_trace);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let text = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(text)) => Some(text),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    let World { steps, commands, tally: faults, trace, .. } = world;
    let trace_hash = trace.hash();
    let trace = trace.into_lines();
    let violation = text.map(|text| Violation { seed, bug: options.bug, steps: options.steps, text, trace });
    Report { seed, steps, commands, faults, trace_hash, violation }
}

/// What many seeds did.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub seeds: u64,
    pub steps: u64,
    pub commands: u64,
    pub faults: Tally,
    pub violations: Vec<Violation>,
}

/// Runs seed after seed until there is none left or `should_stop` says so; it and `progress` see what was done so far,
/// after each seed. Time is the caller's business.
pub fn run_for(
    mut should_stop: impl FnMut(&Summary) -> bool,
    seeds: impl IntoIterator<Item = u64>,
    options: &Options,
    mut progress: impl FnMut(&Summary),
) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds {
        if should_stop(&summary) {
            break;
        }
        let report = run_seed(seed, options);
        summary.seeds += 1;
        summary.steps += report.steps;
        summary.commands += report.commands;
        summary.faults.add(&report.faults);
        summary.violations.extend(report.violation);
        progress(&summary);
    }
    summary
}
