//! Every policy with every sequence of endings of up to five upstreams, against a few lines that say what a join is.

use super::*;
use crate::commands::flows::tests::join as read_join;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Completed,
    Failed,
    Cancelled,
    Skipped,
}

const OUTCOMES: [Outcome; 4] = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Skipped];

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
        On::Failure => matches!(outcome, Outcome::Failed | Outcome::Cancelled),
        On::Always => true,
    }
}

/// What a join of `n` upstreams is after these have ended.
fn verdict(policy: &str, n: usize, on: On, ended: &[Outcome]) -> Verdict {
    let yes = ended.iter().filter(|it| accepts(on, **it)).count();
    let open = n - ended.len();
    let need = match policy.trim_end_matches('~') {
        "all" => n,
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
fn seen(policy: &str, on: On, all: &[Outcome]) -> usize {
    let cancels = policy != "all" && !policy.ends_with('~');
    let decided = (0..=all.len()).find(|p| verdict(policy, all.len(), on, &all[..*p]) != Verdict::Waiting);
    if cancels { decided.unwrap_or(all.len()) } else { all.len() }
}

/// Whether the flow fails, if the join runs well.
fn fails(policy: &str, on: On, all: &[Outcome]) -> bool {
    let ended = &all[..seen(policy, on, all)];
    let absorbs = policy != "all" && verdict(policy, all.len(), on, ended) == Verdict::Satisfied;
    ended.iter().any(|it| match it {
        Outcome::Completed => false,
        // It is skipped because its own upstream failed, which nothing absorbs.
        Outcome::Skipped => true,
        Outcome::Failed | Outcome::Cancelled => !absorbs || accepts(on, *it),
    })
}

// ---- the play --------------------------------------------------------------------------------------------

fn check(policy: &str, on: On, all: &[Outcome]) {
    let what = format!("{policy} on {on} of {all:?}");
    let n = all.len();
    let mut play = Play::new();
    play.bench.checks = Checks::Last;
    let sign = match on {
        On::Success => '>',
        On::Failure => '!',
        On::Always => '*',
    };
    let mut text = format!("join:{policy}");
    for (u, outcome) in all.iter().enumerate() {
        text += &format!(" u{u} u{u}{sign}join");
        if *outcome == Outcome::Skipped {
            text += &format!(" s{u} s{u}>u{u}");
        }
    }
    play.create(&text);
    play.claim_all();
    let seen = seen(policy, on, all);
    for (u, outcome) in all[..seen].iter().enumerate() {
        match outcome {
            Outcome::Completed => play.complete(&format!("u{u}")),
            Outcome::Failed => play.fail(&format!("u{u}")),
            Outcome::Cancelled => play.cancel(&format!("u{u}")),
            Outcome::Skipped => play.fail(&format!("s{u}")),
        }
        let expected = match verdict(policy, n, on, &all[..=u]) {
            Verdict::Waiting => "waiting_children",
            Verdict::Satisfied => "waiting",
            Verdict::Impossible => "skipped",
        };
        assert_eq!(play.state("join"), expected, "{what} after {u}");
    }
    let decided = verdict(policy, n, on, &all[..seen]);
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

fn check_all(n: usize, on: On) {
    let mut policies = vec!["all".to_owned(), "any".to_owned(), "any~".to_owned()];
    policies.extend((1..=n).flat_map(|k| [k.to_string(), format!("{k}~")]));
    for policy in &policies {
        assert_ne!(read_join(policy).need(n as u32), 0);
        for number in 0..4usize.pow(n as u32) {
            let all: Vec<Outcome> = (0..n).map(|u| OUTCOMES[number / 4usize.pow(u as u32) % 4]).collect();
            check(policy, on, &all);
        }
    }
}

#[test]
fn every_policy_does_what_the_oracle_says_for_up_to_four_upstreams() {
    for on in [On::Success, On::Failure, On::Always] {
        (1..=4).for_each(|n| check_all(n, on));
    }
}

#[test]
fn every_policy_does_what_the_oracle_says_for_five_upstreams() {
    check_all(5, On::Success);
}
