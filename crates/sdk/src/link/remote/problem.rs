//! What a server says in place of an answer, as the failure that an engine would give.

use ff_api::Problem;
use ff_core::Rejection;
use ff_core::rejection::Invalid;
use ff_engine::Failure;

use super::http::Answer;

/// Reads a failure out of an answer that is none.
pub(super) fn failure(answer: &Answer) -> Failure {
    match serde_json::from_slice::<Problem>(&answer.body) {
        Ok(problem) => of(problem),
        // Something between here and the server has answered, such as a gateway.
        Err(_) if matches!(answer.status, 408 | 425 | 429 | 500..) => {
            Failure::Unavailable(format!("the answer was {} without a reason", answer.status))
        }
        // A proxy with a limit of its own.
        Err(_) if answer.status == 413 => {
            let detail = "something between here and the server takes no request of this size".to_owned();
            Failure::Refused { code: "too_large", detail }
        }
        Err(_) => {
            let text: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
            Failure::Internal(format!("the answer {} is not one of FlowFabric: {text:?}", answer.status))
        }
    }
}

/// Whether something between here and the server answers for it, without saying whether the server has got the request.
/// Who asks to come back later, as with 425 and 429, has not passed it on.
pub(super) fn hides_the_outcome(answer: &Answer) -> bool {
    matches!(answer.status, 408 | 500..) && serde_json::from_slice::<Problem>(&answer.body).is_err()
}

/// The failure that a problem stands for.
pub(super) fn of(problem: Problem) -> Failure {
    let facts = problem.rejection.unwrap_or_default();
    if let Ok(rejection) = serde_json::from_value::<Rejection>(facts.clone()) {
        return Failure::Rejected(rejection);
    }
    if let (400, Some(wrong)) = (problem.status, problem.fields.first()) {
        let invalid = Invalid::new(wrong.field.clone(), wrong.problem.clone());
        return Failure::Rejected(Rejection::Invalid(invalid));
    }
    let detail = problem.detail;
    match &*problem.code {
        "busy" => {
            let fact = |name: &str| facts[name].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
            Failure::Busy { waiting: fact("waiting"), max: fact("max") }
        }
        "unavailable" => Failure::Unavailable(without("the store is unavailable: ", detail)),
        "outcome_unknown" => Failure::OutcomeUnknown,
        "internal" => Failure::Internal(without("internal error: ", detail)),
        // Another server, or the same after its restart, carries it out.
        _ if problem.retryable => Failure::Unavailable(detail),
        code => Failure::Refused { code: known(code), detail },
    }
}

fn without(prefix: &str, text: String) -> String {
    text.strip_prefix(prefix).map_or(text.clone(), str::to_owned)
}

/// Codes of refusals that come from the server itself and not from the rules.
const CODES: [&str; 9] = [
    "unauthorized",
    "forbidden",
    "other_site",
    "no_route",
    "other_method",
    "not_json",
    "too_large",
    "body_broken",
    "body_slow",
];

fn known(code: &str) -> &'static str {
    CODES.into_iter().find(|it| *it == code).unwrap_or("refused")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_becomes_the_failure_it_stands_for() {
        let gone = Rejection::NotFound { what: "execution".into(), id: "7".to_owned() };
        assert_eq!(of(Problem::from(&gone)), Failure::Rejected(gone));
        let invalid = Rejection::Invalid(Invalid::new("lane", "is missing"));
        assert_eq!(of(Problem::invalid("lane", "is missing")), Failure::Rejected(invalid));
        let stopping = Problem::new(503, "shutting_down", "Shutting down", "it stops").retryable();
        assert_eq!(of(stopping), Failure::Unavailable("it stops".to_owned()));
        let denied = Problem::new(401, "unauthorized", "Not authorized", "a token is needed");
        assert_eq!(of(denied).code(), "unauthorized");
        let unknown = Problem::new(418, "teapot", "No coffee", "this is a teapot");
        assert_eq!(
            (of(unknown.clone()).code(), of(unknown).to_string()),
            ("refused", "this is a teapot".to_owned())
        );
    }

    #[test]
    fn an_answer_that_is_no_problem_of_ours_is_told_apart() {
        let answer = |status, body: &'static str| failure(&Answer { status, body: body.into() });
        assert!(matches!(answer(502, "<html>"), Failure::Unavailable(_)));
        let hides = |status, body: &'static str| hides_the_outcome(&Answer { status, body: body.into() });
        assert!([408, 500, 502, 503, 504, 522].into_iter().all(|status| hides(status, "<html>")));
        assert!([404, 413, 425, 429].into_iter().all(|status| !hides(status, "<html>")));
        let ours =
            r#"{"type":"urn:x","title":"","status":503,"detail":"","code":"unavailable","retryable":true}"#;
        assert!(!hides(503, ours));
        assert_eq!(answer(413, "<html>").code(), "too_large");
        assert!(matches!(answer(404, "<html>"), Failure::Internal(text) if text.contains("<html>")));
    }
}
