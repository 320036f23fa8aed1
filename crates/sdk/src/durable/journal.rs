//! What an attempt knows of its steps: those that were recorded before, and those it has called.

use std::sync::{Mutex, PoisonError};

use ff_core::commands::Drift;
use ff_core::name::StepName;
use ff_core::step::{Step, StepKey, StepKind, StepPlace};
use ff_core::suspension::Signal;
use rustc_hash::FxHashMap;
use tokio::sync::RwLock;

use super::unfit;
use crate::TaskFailure;

/// How many names one report of drift has at most.
const DRIFT_MAX: usize = 100;

tokio::task_local! {
    /// The step whose work is being polled.
    pub(super) static INSIDE: StepName;
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    recorded: FxHashMap<StepKey, Step>,
    signals: Vec<Signal>,
    calls: Mutex<Calls>,
    /// Shared by steps that are under way; taken alone by whoever gives the lease back.
    pub turn: RwLock<()>,
}

#[derive(Debug, Default)]
struct Calls {
    occurrences: FxHashMap<StepName, u32>,
    /// The place of the next step that was not recorded.
    next: u32,
    /// Everything called, in order.
    order: Vec<Called>,
}

#[derive(Debug)]
struct Called {
    name: StepName,
    number: u32,
    recorded: bool,
}

/// A step that is called: its place, and what was recorded there.
pub(super) struct Call<'a> {
    pub place: StepPlace,
    pub recorded: Option<&'a Step>,
}

impl Journal {
    pub fn new(steps: Vec<Step>, signals: Vec<Signal>) -> Journal {
        let next = steps.iter().map(|step| step.number + 1).max().unwrap_or(0);
        let recorded = steps.into_iter().map(|step| (step.key.clone(), step)).collect();
        let calls = Mutex::new(Calls { next, ..Calls::default() });
        Journal { recorded, signals, calls, turn: RwLock::default() }
    }

    /// The next step of this name. The order of calls of one name is what tells them apart.
    pub(super) fn call(&self, name: &str, kind: StepKind) -> Result<Call<'_>, TaskFailure> {
        let name = StepName::parse(name).map_err(unfit)?;
        if let Ok(outer) = INSIDE.try_with(StepName::clone) {
            let problem = format!("step {name} is called inside step {outer}; call it before or after");
            return Err(TaskFailure::fatal(problem).code("nested_step"));
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.occurrences.entry(name.clone()).or_default();
        let key = StepKey { name: name.clone(), occurrence: *count };
        *count += 1;
        let recorded = self.recorded.get(&key);
        if let Some(step) = recorded.filter(|step| step.kind != kind) {
            let (was, is) = (step.kind, kind);
            let problem =
                format!("step {key} was recorded as {was} and is called as {is}; name it differently");
            return Err(TaskFailure::fatal(problem).code("bad_step"));
        }
        let number = recorded.map_or(calls.next, |step| step.number);
        if recorded.is_none() {
            calls.next += 1;
        }
        calls.order.push(Called { name, number, recorded: recorded.is_some() });
        Ok(Call { place: StepPlace { key, number }, recorded })
    }

    /// Signals by their numbers.
    pub(super) fn signals(&self, numbers: &[u32]) -> Vec<Signal> {
        self.signals.iter().filter(|it| numbers.contains(&it.number)).cloned().collect()
    }

    /// How what an attempt has called differs from what was recorded. Nothing is missing of one that did not complete:
    /// it may not have come so far.
    pub fn drift(&self, completed: bool) -> Drift {
        if self.recorded.is_empty() {
            return Drift::default();
        }
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let called =
            |key: &StepKey| calls.occurrences.get(&key.name).is_some_and(|count| key.occurrence < *count);
        let missed = self.recorded.values().filter(|step| completed && !called(&step.key));
        let mut missed: Vec<&Step> = missed.collect();
        missed.sort_by_key(|step| step.number);
        let (mut extra, mut reordered) = (Vec::new(), Vec::new());
        let mut first_after = u32::MAX;
        for it in calls.order.iter().rev() {
            if it.number > first_after {
                let kind = if it.recorded { &mut reordered } else { &mut extra };
                kind.push(it.name.clone());
            }
            if it.recorded {
                first_after = first_after.min(it.number);
            }
        }
        for names in [&mut extra, &mut reordered] {
            names.reverse();
            names.truncate(DRIFT_MAX);
        }
        let missing = missed.into_iter().take(DRIFT_MAX).map(|step| step.key.name.clone()).collect();
        Drift { missing, extra, reordered }
    }
}

#[cfg(test)]
mod tests {
    use ff_core::{ExecutionId, Payload, Route};

    use super::*;

    fn recorded(names: &[&str]) -> Journal {
        let step = |(number, name): (usize, &&str)| Step {
            execution: ExecutionId::from_parts(1, Route(0), 1),
            key: StepKey { name: StepName::parse(name).unwrap(), occurrence: 0 },
            kind: StepKind::Run,
            number: number as u32,
            attempt: 1,
            started_at: 1,
            ended_at: 2,
            result: Payload::json("1"),
        };
        Journal::new(names.iter().enumerate().map(step).collect(), Vec::new())
    }

    fn drift(journal: &Journal, calls: &[&str]) -> [Vec<String>; 3] {
        for name in calls {
            journal.call(name, StepKind::Run).unwrap();
        }
        let words = |names: Vec<StepName>| names.iter().map(|it| it.to_string()).collect();
        let Drift { missing, extra, reordered } = journal.drift(true);
        let failed = journal.drift(false);
        assert_eq!(failed, Drift { missing: Vec::new(), extra: extra.clone(), reordered: reordered.clone() });
        [words(missing), words(extra), words(reordered)]
    }

    #[test]
    fn what_differs_from_the_record_is_told_and_nothing_else() {
        let words = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        // What was recorded, what is called, what is missing, what is too many, what is out of order.
        let cases: [[&[&str]; 5]; 8] = [
            [&[], &["a", "b"], &[], &[], &[]],
            [&["a", "b"], &["a", "b"], &[], &[], &[]],
            [&["a", "b"], &["a", "b", "c"], &[], &[], &[]],
            [&["a", "b"], &["b"], &["a"], &[], &[]],
            [&["a", "b"], &["a"], &["b"], &[], &[]],
            [&["a", "b"], &["b", "a"], &[], &[], &["b"]],
            [&["a", "b"], &["a", "new", "b"], &[], &["new"], &[]],
            [&["a", "b", "c"], &["new", "b", "a", "a"], &["c"], &["new"], &["b"]],
        ];
        for [before, calls, missing, extra, reordered] in cases {
            let told = drift(&recorded(before), calls);
            assert_eq!(told, [words(missing), words(extra), words(reordered)], "{before:?} {calls:?}");
        }
    }

    #[test]
    fn names_repeat_in_the_order_of_their_calls() {
        let journal = recorded(&["a"]);
        let first = journal.call("a", StepKind::Run).unwrap();
        let second = journal.call("a", StepKind::Run).unwrap();
        assert_eq!((first.place.key.occurrence, first.recorded.is_some()), (0, true));
        assert_eq!((second.place.key.occurrence, second.recorded.is_some()), (1, false));
        assert_eq!((first.place.number, second.place.number), (0, 1));
        assert_eq!(journal.call("a", StepKind::Run).unwrap().place.number, 2);
    }

    #[test]
    fn a_step_that_was_something_else_and_a_name_that_does_not_fit_are_refused() {
        let journal = recorded(&["a"]);
        let failure = journal.call("a", StepKind::Sleep).err().unwrap();
        let told = "step a was recorded as run and is called as sleep; name it differently";
        assert_eq!((failure.message(), failure.is_fatal()), (told, true));
        assert_eq!(
            journal.call("", StepKind::Run).err().unwrap().message(),
            "step has 0 bytes; allowed are 1 to 128"
        );
    }
}
