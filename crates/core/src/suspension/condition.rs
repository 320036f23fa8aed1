//! What a suspension waits for, and whether it is there.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Arrived, Mailbox, Waitpoint};
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
        match self {
            Condition::Signal(it) => {
                let arrived = || mailbox.signals.iter().any(|signal| it.fits(signal));
                let open = |open: &Waitpoint| admits(it, open) && more(open, mailbox) > 0;
                it.waitpoint.is_none() || mailbox.waitpoints.iter().any(open) || arrived()
            }
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

/// Whether signals through an open waitpoint can fit. One with a name takes signals of that name only.
fn admits(it: &Match, open: &Waitpoint) -> bool {
    let named = it.name.is_none() || open.name.is_none() || it.name == open.name;
    named && it.waitpoint.is_none_or(|number| number == open.number)
}

/// Whose signals a waitpoint that names its approvers still takes.
fn left<'m>(open: &'m Waitpoint, mailbox: &'m Mailbox) -> impl Iterator<Item = &'m str> {
    let came = |source: &str| {
        let through = |it: &&Arrived| it.waitpoint == Some(open.number);
        mailbox.signals.iter().filter(through).any(|it| it.sender().name() == Some(source))
    };
    let names: BTreeSet<&str> = open.approvers.iter().map(|it| &**it).collect();
    names
        .into_iter()
        .filter(move |it| open.requester.as_deref() != Some(it) && !(open.distinct_sources && came(it)))
}

/// How many signals a waitpoint still takes.
fn more(open: &Waitpoint, mailbox: &Mailbox) -> usize {
    match (open.approvers.is_empty(), left(open, mailbox).count()) {
        (false, bounded) if open.distinct_sources || bounded == 0 => bounded,
        _ => usize::MAX,
    }
}

/// How far a count can get: what has arrived, and what open waitpoints still let in.
fn reach(distinct: Distinct, of: &[Match], mailbox: &Mailbox) -> usize {
    let anywhere = of.is_empty() || of.iter().any(|it| it.waitpoint.is_none());
    // Who waits opens no more waitpoints.
    if anywhere && distinct != Distinct::Waitpoints {
        return usize::MAX;
    }
    let fits = |signal: &&Arrived| match of {
        [] => signal.child.is_none(),
        of => of.iter().any(|it| it.fits(signal)),
    };
    let arrived = mailbox.signals.iter().filter(fits);
    let mut marks: BTreeSet<Mark<'_>> = arrived.filter_map(|it| Mark::of(it, distinct)).collect();
    let wanted = |open: &&Waitpoint| of.is_empty() || of.iter().any(|it| admits(it, open));
    let mut signals = 0_usize;
    for open in mailbox.waitpoints.iter().filter(wanted) {
        match distinct {
            Distinct::Waitpoints if more(open, mailbox) > 0 => drop(marks.insert(Mark::Number(open.number))),
            Distinct::Waitpoints => {}
            Distinct::Signals => signals = signals.saturating_add(more(open, mailbox)),
            Distinct::Sources if open.approvers.is_empty() => return usize::MAX,
            Distinct::Sources => marks.extend(left(open, mailbox).map(Mark::Source)),
        }
    }
    signals.saturating_add(marks.len())
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
            Distinct::Sources => signal.sender().name().map(Mark::Source),
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
                        Distinct::Sources => {
                            signal.principal.as_ref().or(signal.source.as_ref()).map(|it| it.to_string())
                        }
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
        let known = prop::option::weighted(0.3, prop::sample::select(vec!["ann", "bob"]).prop_map(Box::from));
        let signal =
            (names, prop::option::of(1..4u32), sources, known, prop::option::weighted(0.15, 0..2u64));
        prop::collection::vec(signal, 0..8).prop_map(|all| {
            let numbered = all.into_iter().zip(1..);
            let arrived = numbered.map(|((name, waitpoint, source, principal, ended), number)| match ended {
                Some(n) => Arrived::child(child(n)),
                None => Arrived { number, name, waitpoint, source, principal, child: None },
            });
            arrived.collect()
        })
    }

    /// Waitpoints that are open, and signals that came through them or through ones that have closed.
    fn mailbox() -> impl Strategy<Value = Mailbox> {
        let people = || prop::sample::select(vec!["ann", "bob", "cy"]).prop_map(Box::from);
        let named = prop::option::of(prop::sample::select(vec!["a", "b"]).prop_map(name));
        let approvers = prop::collection::vec(people(), 0..3);
        let open = (named, approvers, prop::option::of(people()), any::<bool>());
        let waitpoints = prop::collection::vec(prop::option::of(open), 3);
        (waitpoints, arrived(), prop::collection::vec(0..2u64, 0..2)).prop_map(
            |(waitpoints, signals, children)| {
                let numbered = (1..).zip(waitpoints).filter_map(|(number, it)| Some((number, it?)));
                let waitpoints = numbered.map(|(number, (name, approvers, requester, distinct))| Waitpoint {
                    number,
                    // Whose name is open and who counts once may send one of two names: a choice that is not looked into.
                    distinct_sources: distinct && name.is_some(),
                    known_sources: false,
                    name,
                    opened_at: 0,
                    expires_at: None,
                    digest: None,
                    approvers,
                    requester,
                    step: None,
                    token_signals: 0,
                });
                let children = children.into_iter().map(child).collect();
                Mailbox { waitpoints: waitpoints.collect(), signals, children, ..Mailbox::default() }
            },
        )
    }

    /// What has arrived and every signal that could, tried one by one against the rules of the waitpoints.
    fn with_all_that_may_come(mailbox: &Mailbox) -> Vec<Arrived> {
        let mut all = mailbox.signals.clone();
        all.extend(mailbox.children.iter().map(|it| Arrived::child(*it)));
        let people = ["ann", "bob", "cy", "dee", "eve", "flo", "guy", "hal"];
        for _ in 0..3 {
            for (source, name) in people.iter().flat_map(|it| ["a", "b"].map(|text| (*it, name(text)))) {
                // Past any waitpoint: one with the name may have closed by then.
                let number = 1_000 + all.len() as u32;
                let signal = |waitpoint| Arrived {
                    number,
                    name: Some(name.clone()),
                    waitpoint,
                    source: Some(source.into()),
                    principal: None,
                    child: None,
                };
                all.push(signal(None));
                for open in &mailbox.waitpoints {
                    let named = open.name.is_none() || open.name.as_ref() == Some(&name);
                    let listed = open.approvers.is_empty() || open.approvers.iter().any(|it| **it == *source);
                    let own = open.requester.as_deref() == Some(source);
                    let here = |it: &&Arrived| it.waitpoint == Some(open.number);
                    let again = all.iter().filter(here).any(|it| it.sender().name() == Some(source));
                    if named && listed && !own && !(open.distinct_sources && again) {
                        all.push(Arrived { number: 1_000 + all.len() as u32, ..signal(Some(open.number)) });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn conditions_are_written_as_the_document_shows_them() {
        let document = include_str!("../../../../docs/suspension.md");
        let block = document.split("```json\n").nth(1).and_then(|it| it.split("```").next()).unwrap();
        let conditions: Vec<Condition> = block.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(conditions.len(), 7);
        assert!(conditions.iter().all(|it| it.validate().is_ok()));
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
        fn what_can_be_met_is_what_every_signal_that_may_come_would_meet(
            condition in condition(),
            mailbox in mailbox(),
        ) {
            let all = with_all_that_may_come(&mailbox);
            prop_assert_eq!(condition.can_be_met(&mailbox), oracle(&condition, &all));
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
            principal: None,
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
    fn approvals_of_several_waitpoints_add_up() {
        let open = |number, approvers: &[&str]| Waitpoint {
            number,
            name: None,
            opened_at: 0,
            expires_at: None,
            digest: None,
            approvers: approvers.iter().map(|it| Box::from(*it)).collect(),
            requester: Some("cy".into()),
            distinct_sources: true,
            known_sources: false,
            step: None,
            token_signals: 0,
        };
        let count = |n, distinct| Condition::Count {
            n,
            distinct,
            of: vec![Match::waitpoint(1), Match::waitpoint(2), Match::waitpoint(2)],
        };
        let mut mailbox =
            Mailbox { waitpoints: vec![open(1, &["ann"]), open(2, &["ann", "cy"])], ..Mailbox::default() };
        let reaches =
            |mailbox: &Mailbox, distinct| (1..9).filter(|n| count(*n, distinct).can_be_met(mailbox)).count();
        assert_eq!(reaches(&mailbox, Distinct::Signals), 2);
        assert_eq!(reaches(&mailbox, Distinct::Sources), 1);
        assert_eq!(reaches(&mailbox, Distinct::Waitpoints), 2);
        let came = Arrived {
            number: 1,
            name: None,
            waitpoint: Some(1),
            source: Some("ann".into()),
            principal: None,
            child: None,
        };
        mailbox.signals.push(came);
        assert_eq!(reaches(&mailbox, Distinct::Signals), 2, "the one that came and the one that may");
        mailbox.waitpoints.truncate(1);
        assert_eq!(reaches(&mailbox, Distinct::Signals), 1);
        mailbox.signals.clear();
        mailbox.waitpoints[0].distinct_sources = false;
        assert_eq!(reaches(&mailbox, Distinct::Signals), 8, "the same one may come again");
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
