//! Each example, run to its end as its users run it; then what it said is compared with what the store says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod facts;
mod place;

use place::Place;

/// Each example, wherever it runs.
macro_rules! everywhere {
    ($($name:ident,)+) => {
        mod on_a_file {
            $(#[tokio::test]
            async fn $name() {
                super::facts::$name(&super::Place::file()).await;
            })+
        }

        mod over_http {
            $(#[tokio::test]
            async fn $name() {
                super::facts::$name(&super::Place::server()).await;
            })+
        }
    };
}

everywhere! {
    a_deployment_needs_two_approvers_and_neither_is_the_requester,
    a_third_party_calls_back_at_once_later_or_never,
    a_killed_workers_incident_is_handed_over_and_no_step_is_done_twice,
    failures_are_tried_again_as_their_class_says_and_cancels_reach_what_runs,
    a_film_goes_through_its_stages_and_is_seen_at_work,
    the_first_answer_wins_and_losers_are_stopped_or_never_started,
}

#[test]
fn without_an_address_an_example_runs_on_a_file_that_is_gone_afterwards() {
    let temporary = tempfile::tempdir().unwrap();
    let said = place::said(place::command("deploy-approval").env("TMPDIR", temporary.path()));
    assert!(said.contains("shop 2.0 is live, approved by ada and linus"), "{said}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn an_address_that_is_none_is_refused_with_what_is_allowed() {
    let output = place::command("deploy-approval").arg("nowhere").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("nowhere") && error.contains("sqlite:"), "{error}");
}
