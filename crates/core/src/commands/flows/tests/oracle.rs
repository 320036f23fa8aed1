//! Every policy with every sequence of endings of up to five upstreams, against a few lines that say what a join is.

use super::*;
use crate::commands::flows::tests::join as read_join;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Completed,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

/// A loser is none of them: as long as a join needs an upstream, no other join cancels it.
const OUTCOMES: [Outcome; 5] =
    [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Expired, Outcome::Skipped];
const CONDITIONS: [On; 3] = [On::Success, On::Failure, On::Always];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Waiting,
    Satisfied,
    Impossible,
}

// ---- the oracle ------------------------------------------------------------------------------------------

fn accepts(on: On, outcome: Outcome) -> bool {
    match on {
        On::Success => outcome == Outcome::Completed,
        On::Failure => matches!(outcome, Outcome::Failed | Outcome::Cancelled | Outcome::Expired),
        On::Always => true,
    }
}

/// What a join of upstreams under these conditions is after the first of them have ended.
fn verdict(policy: &str, on: &[On], ended: &[Outcome]) -> Verdict {
    let yes = on.iter().zip(ended).filter(|(on, it)| accepts(**on, **it)).count();
    let open = on.len() - ended.len();
    let need = match policy.trim_end_matches('~') {
        "all" => on.len(),
        "any" => 1,
        k => k.parse().unwrap(),
    };
    if yes >= need {
        Verdict::Satisfied
    } else if yes + open < need {
        Verdict::Impossible
    } else {
        Verdict::Waiting
    }
}

/// How many of the endings happen before the join is decided and the rest is cancelled.
fn seen(policy: &str, on: &[On], all: &[Outcome]) -> usize {
    let cancels = policy != "all" && !policy.ends_with('~');
    let decided = (0..=all.len()).find(|p| verdict(policy, on, &all[..*p]) != Verdict::Waiting);
    if cancels { decided.unwrap_or(all.len()) } else { all.len() }
}

/// Whether the flow fails, if the join runs well.
fn fails(policy: &str, on: &[On], all: &[Outcome]) -> bool {
    let ended = &all[..seen(policy, on, all)];
    let absorbs = policy != "all" && verdict(policy, on, ended) == Verdict::Satisfied;
    on.iter().zip(ended).any(|(on, it)| match it {
        Outcome::Completed => false,
        // It is skipped because its own upstream failed, which nothing absorbs.
        Outcome::Skipped => true,
        Outcome::Failed | Outcome::Cancelled | Outcome::Expired => !absorbs || accepts(*on, *it),
    })
}

// ---- the play --------------------------------------------------------------------------------------------

fn check(policy: &str, on: &[On], all: &[Outcome]) {
    let what = format!("{policy} on {on:?} of {all:?}");
    let n = all.len();
    let mut play = Play::new();
    play.bench.checks = Checks::Last;
    let mut text = format!("join:{policy}");
    for (u, (on, outcome)) in on.iter().zip(all).enumerate() {
        let sign = match on {
            On::Success => '>',
            On::Failure => '!',
            On::Always => '*',
        };
        text += &format!(" u{u} u{u}{sign}join");
        if *outcome == Outcome::Skipped {
            text += &format!(" s{u} s{u}>u{u}");
        }
    }
    let mut command = CreateFlow { sealed: true, ..play.sketch(&text) };
    let expires = all.contains(&Outcome::Expired);
    for (u, _) in all.iter().enumerate().filter(|(_, it)| **it == Outcome::Expired) {
        let node = command.nodes.iter_mut().find(|it| it.create.id == play.ids[&format!("u{u}")]);
        node.unwrap().create.deadline = Some(crate::commands::When::In(u as i64 + 1));
    }
    play.bench.ok(command);
    play.claim_all();
    let seen = seen(policy, on, all);
    for (u, outcome) in all[..seen].iter().enumerate() {
        if expires {
            play.bench.pass(1);
        }
        match outcome {
            Outcome::Completed => play.complete(&format!("u{u}")),
            Outcome::Failed => play.fail(&format!("u{u}")),
            Outcome::Cancelled => play.cancel(&format!("u{u}")),
            Outcome::Expired => assert_eq!(play.state(&format!("u{u}")), "expired", "{what}"),
            Outcome::Skipped => play.fail(&format!("s{u}")),
        }
        let expected = match verdict(policy, on, &all[..=u]) {
            Verdict::Waiting => "waiting_children",
            Verdict::Satisfied => "waiting",
            Verdict::Impossible => "skipped",
        };
        assert_eq!(play.state("join"), expected, "{what} after {u}");
    }
    let decided = verdict(policy, on, &all[..seen]);
    for u in seen..n {
        assert_eq!(play.state(&format!("u{u}")), "cancelled", "{what}");
        let cause = if decided == Verdict::Satisfied { "satisfied" } else { "impossible" };
        assert_eq!(play.reason(&format!("u{u}")), format!("sibling_quorum_{cause}"), "{what}");
    }
    let admitted = play.facts("join").iter().filter(|it| **it == "admitted").count();
    assert_eq!(admitted, usize::from(decided == Verdict::Satisfied), "{what}: ready exactly once");
    if decided == Verdict::Satisfied {
        play.complete("join");
    }
    let expected = if fails(policy, on, all) { FlowState::Failed } else { FlowState::Completed };
    assert_eq!(play.flow_state(), expected, "{what}");
}

/// Every sequence of so many of these.
fn sequences<T: Copy>(of: &[T], n: usize) -> impl Iterator<Item = Vec<T>> {
    let base = of.len();
    (0..base.pow(n as u32))
        .map(move |number| (0..n).map(|u| of[number / base.pow(u as u32) % base]).collect())
}

fn check_all(on: &[On]) {
    let n = on.len();
    let mut policies = vec!["all".to_owned(), "any".to_owned(), "any~".to_owned()];
    policies.extend((1..=n).flat_map(|k| [k.to_string(), format!("{k}~")]));
    for policy in &policies {
        assert_ne!(read_join(policy).need(n as u32), 0);
        sequences(&OUTCOMES, n).for_each(|all| check(policy, on, &all));
    }
}

#[test]
fn every_policy_does_what_the_oracle_says_for_up_to_four_upstreams() {
    for on in CONDITIONS {
        (1..=4).for_each(|n| check_all(&vec![on; n]));
    }
}

#[test]
fn every_policy_does_what_the_oracle_says_for_five_upstreams_on_success() {
    check_all(&[On::Success; 5]);
}

#[test]
fn every_policy_does_what_the_oracle_says_for_five_upstreams_on_failure() {
    check_all(&[On::Failure; 5]);
}

#[test]
fn every_policy_does_what_the_oracle_says_for_five_upstreams_on_any_ending() {
    check_all(&[On::Always; 5]);
}

#[test]
fn every_policy_does_what_the_oracle_says_for_upstreams_under_different_conditions() {
    for n in 2..=3 {
        sequences(&CONDITIONS, n).for_each(|on| check_all(&on));
    }
}
