//! What a suspension waits for, and whether it is there.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Arrived, Mailbox};
use crate::id::ExecutionId;
use crate::name::SignalName;
use crate::rejection::Invalid;

/// How deep conditions may be nested.
const DEPTH_MAX: usize = 4;
/// How many parts a condition may have in all.
const PARTS_MAX: usize = 256;

/// Which signals: all that is given must fit, and with nothing given every signal fits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SignalName>,
    /// The number of a waitpoint of the same execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waitpoint: Option<u32>,
}

impl Match {
    pub fn named(name: SignalName) -> Match {
        Match { name: Some(name), waitpoint: None }
    }

    pub fn waitpoint(number: u32) -> Match {
        Match { name: None, waitpoint: Some(number) }
    }

    pub fn fits(&self, signal: &Arrived) -> bool {
        signal.child.is_none()
            && self.name.as_ref().is_none_or(|name| signal.name.as_ref() == Some(name))
            && self.waitpoint.is_none_or(|number| signal.waitpoint == Some(number))
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distinct {
    Waitpoints,
    Signals,
    Sources,
}

/// What must have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// One signal.
    Signal(Match),
    AllOf(Vec<Condition>),
    AnyOf(Vec<Condition>),
    /// So many different ones among the signals that fit one of the matches.
    Count {
        n: u32,
        distinct: Distinct,
        of: Vec<Match>,
    },
    /// The end of a child execution.
    Child(ExecutionId),
    /// Nothing but an operator ends it.
    Operator,
    /// Nothing but its timeout ends it.
    Time,
}

impl Condition {
    /// One signal of this name.
    pub fn signal(name: &str) -> Result<Condition, Invalid> {
        Ok(Condition::Signal(Match::named(SignalName::parse(name)?)))
    }

    /// Checks what can be checked without looking at the execution.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut parts = 0;
        self.check(1, &mut parts)
    }

    fn check(&self, depth: usize, parts: &mut usize) -> Result<(), Invalid> {
        let bad = |problem: String| Err(Invalid::new("condition", problem));
        *parts += 1;
        if depth > DEPTH_MAX {
            return bad(format!("is nested deeper than {DEPTH_MAX}"));
        }
        match self {
            Condition::Signal(_) | Condition::Child(_) => {}
            Condition::AllOf(all) | Condition::AnyOf(all) => {
                if all.is_empty() {
                    return bad("has an all_of or any_of of nothing; give at least one condition".into());
                }
                all.iter().try_for_each(|it| it.check(depth + 1, parts))?;
            }
            Condition::Count { n, distinct, of } => {
                *parts += of.len();
                if *n == 0 || *n > 10_000 {
                    return bad(format!("counts to {n}; allowed are 1 to 10000"));
                }
                let numbers: Option<BTreeSet<u32>> = of.iter().map(|it| it.waitpoint).collect();
                let known = numbers.filter(|numbers| !numbers.is_empty()).map(|it| it.len());
                if *distinct == Distinct::Waitpoints && known.is_some_and(|known| known < *n as usize) {
                    return bad(format!("can never be met: it counts {n} waitpoints and names fewer"));
                }
            }
            Condition::Operator | Condition::Time if depth > 1 => {
                return bad("has operator or time inside another condition; they stand alone".into());
            }
            Condition::Operator | Condition::Time => {}
        }
        if *parts > PARTS_MAX {
            return bad(format!("has more than {PARTS_MAX} parts"));
        }
        Ok(())
    }

    /// The signals and children that meet it, if they are there: places in `arrived`, in order.
    pub fn met_by(&self, arrived: &[Arrived]) -> Option<BTreeSet<usize>> {
        match self {
            Condition::Signal(it) => first(arrived, |signal| it.fits(signal)),
            Condition::Child(id) => first(arrived, |signal| signal.child == Some(*id)),
            Condition::AllOf(all) => {
                let met = all.iter().map(|it| it.met_by(arrived)).collect::<Option<Vec<_>>>()?;
                Some(met.into_iter().flatten().collect())
            }
            Condition::AnyOf(all) => all.iter().find_map(|it| it.met_by(arrived)),
            Condition::Count { n, distinct, of } => {
                let fits = |signal: &Arrived| match of.as_slice() {
                    [] => signal.child.is_none(),
                    of => of.iter().any(|it| it.fits(signal)),
                };
                let (mut seen, mut met) = (BTreeSet::new(), BTreeSet::new());
                for (at, signal) in arrived.iter().enumerate().filter(|(_, it)| fits(it)) {
                    let Some(mark) = Mark::of(signal, *distinct) else { continue };
                    if seen.insert(mark) {
                        met.insert(at);
                    }
                    if met.len() == *n as usize {
                        return Some(met);
                    }
                }
                None
            }
            Condition::Operator | Condition::Time => None,
        }
    }

    /// Whether a signal can be part of what meets it.
    pub fn wants(&self, signal: &Arrived) -> bool {
        match self {
            Condition::Signal(it) => it.fits(signal),
            Condition::Child(id) => signal.child == Some(*id),
            Condition::AllOf(all) | Condition::AnyOf(all) => all.iter().any(|it| it.wants(signal)),
            Condition::Count { of, .. } if of.is_empty() => signal.child.is_none(),
            Condition::Count { of, .. } => of.iter().any(|it| it.fits(signal)),
            Condition::Operator | Condition::Time => false,
        }
    }

    /// The children it waits for.
    pub fn children(&self) -> Vec<ExecutionId> {
        match self {
            Condition::Child(id) => vec![*id],
            Condition::AllOf(all) | Condition::AnyOf(all) => {
                all.iter().flat_map(|it| it.children()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it speaks of a waitpoint, by number or by name.
    pub fn is_about(&self, number: u32, name: Option<&SignalName>) -> bool {
        let about = |it: &Match| match (it.waitpoint, &it.name) {
            (Some(at), _) => at == number,
            (None, Some(wanted)) => Some(wanted) == name,
            (None, None) => true,
        };
        match self {
            Condition::Signal(it) => about(it),
            Condition::AllOf(all) | Condition::AnyOf(all) => all.iter().any(|it| it.is_about(number, name)),
            Condition::Count { of, .. } => of.is_empty() || of.iter().any(about),
            Condition::Child(_) | Condition::Operator | Condition::Time => false,
        }
    }

    /// Whether signals and children can still meet it, given what has arrived and which waitpoints are open.
    pub fn can_be_met(&self, mailbox: &Mailbox) -> bool {
        let arrived = |it: &Match| mailbox.signals.iter().any(|signal| it.fits(signal));
        let open = |it: &Match| match it.waitpoint {
            None => true,
            Some(number) => {
                let named = |found: &super::Waitpoint| it.name.is_none() || it.name == found.name;
                mailbox.waitpoint(number).is_some_and(named)
            }
        };
        match self {
            Condition::Signal(it) => open(it) || arrived(it),
            Condition::Child(id) => {
                let ended = mailbox.signals.iter().any(|signal| signal.child == Some(*id));
                ended || mailbox.children.contains(id)
            }
            Condition::AllOf(all) => all.iter().all(|it| it.can_be_met(mailbox)),
            Condition::AnyOf(all) => all.iter().any(|it| it.can_be_met(mailbox)),
            Condition::Count { n, distinct, of } => reach(*distinct, of, mailbox) >= *n as usize,
            Condition::Operator | Condition::Time => true,
        }
    }
}

/// How far a count can get: what has arrived, and what open waitpoints still let in.
fn reach(distinct: Distinct, of: &[Match], mailbox: &Mailbox) -> usize {
    let unbounded = of.is_empty() || of.iter().any(|it| it.waitpoint.is_none());
    if unbounded {
        return usize::MAX;
    }
    let fitting = || mailbox.signals.iter().filter(|signal| of.iter().any(|it| it.fits(signal)));
    let mut marks: BTreeSet<Mark<'_>> = fitting().filter_map(|it| Mark::of(it, distinct)).collect();
    for number in of.iter().filter_map(|it| it.waitpoint) {
        let Some(open) = mailbox.waitpoint(number) else { continue };
        match distinct {
            Distinct::Waitpoints => drop(marks.insert(Mark::Number(number))),
            Distinct::Signals if open.approvers.is_empty() || !open.distinct_sources => return usize::MAX,
            Distinct::Signals | Distinct::Sources if open.approvers.is_empty() => return usize::MAX,
            Distinct::Signals => {
                let left = open.approvers.iter().filter(|it| open.requester.as_ref() != Some(it));
                return left.count().max(marks.len());
            }
            Distinct::Sources => {
                let left = open.approvers.iter().filter(|it| open.requester.as_ref() != Some(it));
                marks.extend(left.map(|it| Mark::Source(it)));
            }
        }
    }
    marks.len()
}

/// What tells two signals apart.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Mark<'a> {
    Number(u32),
    Source(&'a str),
}

impl Mark<'_> {
    /// Absent if it does not count.
    fn of(signal: &Arrived, distinct: Distinct) -> Option<Mark<'_>> {
        match distinct {
            Distinct::Signals => Some(Mark::Number(signal.number)),
            Distinct::Waitpoints => signal.waitpoint.map(Mark::Number),
            Distinct::Sources => signal.source.as_deref().map(Mark::Source),
        }
    }
}

fn first(arrived: &[Arrived], fits: impl Fn(&Arrived) -> bool) -> Option<BTreeSet<usize>> {
    arrived.iter().position(fits).map(|at| BTreeSet::from([at]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Route;

    fn name(name: &str) -> SignalName {
        SignalName::parse(name).unwrap()
    }

    fn child(n: u64) -> ExecutionId {
        ExecutionId::from_parts(1, Route(0), n)
    }

    /// Says in the plainest way whether all that a condition asks for is there.
    fn oracle(condition: &Condition, arrived: &[Arrived]) -> bool {
        let fits = |it: &Match, signal: &Arrived| {
            let named = it.name.is_none() || it.name == signal.name;
            let at = it.waitpoint.is_none() || it.waitpoint == signal.waitpoint;
            signal.child.is_none() && named && at
        };
        match condition {
            Condition::Signal(it) => arrived.iter().any(|signal| fits(it, signal)),
            Condition::Child(id) => arrived.iter().any(|signal| signal.child == Some(*id)),
            Condition::AllOf(all) => all.iter().all(|it| oracle(it, arrived)),
            Condition::AnyOf(all) => all.iter().any(|it| oracle(it, arrived)),
            Condition::Count { n, distinct, of } => {
                let mut marks = Vec::new();
                for signal in arrived.iter().filter(|it| it.child.is_none()) {
                    if !of.is_empty() && !of.iter().any(|it| fits(it, signal)) {
                        continue;
                    }
                    marks.extend(match distinct {
                        Distinct::Signals => Some(format!("{}", signal.number)),
                        Distinct::Waitpoints => signal.waitpoint.map(|it| format!("{it}")),
                        Distinct::Sources => signal.source.as_ref().map(|it| it.to_string()),
                    });
                }
                marks.sort();
                marks.dedup();
                marks.len() >= *n as usize
            }
            Condition::Operator | Condition::Time => false,
        }
    }

    fn matches() -> impl Strategy<Value = Match> {
        let names = prop::option::of(prop::sample::select(vec!["a", "b"]).prop_map(name));
        (names, prop::option::of(1..4u32)).prop_map(|(name, waitpoint)| Match { name, waitpoint })
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let distinct = prop::sample::select(vec![Distinct::Signals, Distinct::Sources, Distinct::Waitpoints]);
        let leaf = prop_oneof![
            4 => matches().prop_map(Condition::Signal),
            1 => (0..2u64).prop_map(|n| Condition::Child(child(n))),
            4 => (1..4u32, distinct, prop::collection::vec(matches(), 0..3))
                .prop_map(|(n, distinct, of)| Condition::Count { n, distinct, of }),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::AllOf),
                prop::collection::vec(inner, 1..4).prop_map(Condition::AnyOf),
            ]
        })
    }

    fn arrived() -> impl Strategy<Value = Vec<Arrived>> {
        let names = prop::option::of(prop::sample::select(vec!["a", "b"]).prop_map(name));
        let sources = prop::option::of(prop::sample::select(vec!["ann", "bob", "cy"]).prop_map(Box::from));
        let signal = (names, prop::option::of(1..4u32), sources, prop::option::weighted(0.15, 0..2u64));
        prop::collection::vec(signal, 0..8).prop_map(|all| {
            let numbered = all.into_iter().zip(1..);
            let arrived = numbered.map(|((name, waitpoint, source, ended), number)| match ended {
                Some(n) => Arrived::child(child(n)),
                None => Arrived { number, name, waitpoint, source, child: None },
            });
            arrived.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

        #[test]
        fn what_is_met_is_what_a_plain_reading_says(condition in condition(), arrived in arrived()) {
            for count in 0..=arrived.len() {
                let some = &arrived[..count];
                let met = condition.met_by(some);
                prop_assert_eq!(met.is_some(), oracle(&condition, some));
                let Some(met) = met else { continue };
                let used: Vec<Arrived> = met.iter().map(|at| some[*at].clone()).collect();
                prop_assert!(oracle(&condition, &used), "what is used is enough");
                prop_assert!(used.iter().all(|it| condition.wants(it)), "and nothing else is used");
                prop_assert_eq!(condition.met_by(&arrived).is_some(), true, "more never takes it back");
            }
        }

        #[test]
        fn what_has_been_met_could_be_met(condition in condition(), arrived in arrived()) {
            let children = vec![child(0), child(1)];
            let mailbox = Mailbox { signals: arrived.clone(), children, ..Mailbox::default() };
            if condition.met_by(&arrived).is_some() {
                prop_assert!(condition.can_be_met(&mailbox));
            }
        }

        #[test]
        fn a_condition_reads_back_from_its_text(condition in condition()) {
            let text = serde_json::to_string(&condition).unwrap();
            prop_assert_eq!(serde_json::from_str::<Condition>(&text).unwrap(), condition);
        }
    }

    #[test]
    fn what_is_used_is_the_oldest_that_is_enough() {
        let signal = |number, of: &str, source: &str| Arrived {
            number,
            name: Some(name(of)),
            waitpoint: None,
            source: Some(source.into()),
            child: None,
        };
        let arrived =
            [signal(1, "b", "ann"), signal(2, "a", "ann"), signal(3, "a", "ann"), signal(4, "a", "bob")];
        let one = |of| Condition::Signal(Match::named(name(of)));
        let two = |distinct| Condition::Count { n: 2, distinct, of: vec![Match::named(name("a"))] };
        let cases = [
            (one("a"), vec![1]),
            (Condition::Signal(Match::default()), vec![0]),
            (Condition::AllOf(vec![one("a"), one("b")]), vec![0, 1]),
            (Condition::AnyOf(vec![one("a"), one("b")]), vec![1]),
            (two(Distinct::Signals), vec![1, 2]),
            (two(Distinct::Sources), vec![1, 3]),
        ];
        for (condition, used) in cases {
            let met: Vec<usize> = condition.met_by(&arrived).unwrap().into_iter().collect();
            assert_eq!(met, used, "{condition:?}");
        }
        assert_eq!(two(Distinct::Waitpoints).met_by(&arrived), None, "none came through a waitpoint");
    }

    #[test]
    fn conditions_that_make_no_sense_are_refused_with_the_reason() {
        let one = || Condition::Signal(Match::default());
        let nested = |depth: usize| (0..depth).fold(one(), |inner, _| Condition::AllOf(vec![inner]));
        let count = |n, of| Condition::Count { n, distinct: Distinct::Waitpoints, of };
        assert_eq!(nested(3).validate(), Ok(()));
        let cases = [
            (nested(4), "is nested deeper than 4"),
            (Condition::AllOf(vec![]), "has an all_of or any_of of nothing; give at least one condition"),
            (Condition::AnyOf(vec![]), "has an all_of or any_of of nothing; give at least one condition"),
            (count(0, vec![]), "counts to 0; allowed are 1 to 10000"),
            (count(10_001, vec![]), "counts to 10001; allowed are 1 to 10000"),
            (
                count(2, vec![Match::waitpoint(1), Match::waitpoint(1)]),
                "can never be met: it counts 2 waitpoints and names fewer",
            ),
            (
                Condition::AnyOf(vec![one(), Condition::Operator]),
                "has operator or time inside another condition; they stand alone",
            ),
            (Condition::AllOf((0..256).map(|_| one()).collect()), "has more than 256 parts"),
        ];
        for (condition, problem) in cases {
            assert_eq!(condition.validate().unwrap_err().problem, problem, "{condition:?}");
        }
    }
}
