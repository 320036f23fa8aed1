//! Problems (RFC 9457): what went wrong, under a word that is documented, and whether to try again.

use ff_core::rejection::Rejection;
use serde::{Deserialize, Serialize};

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    pub kind: String,
    /// In a few words what kind of problem it is.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What is wrong here and what is allowed.
    pub detail: String,
    /// The word under which the documentation explains it.
    pub code: String,
    /// The fields that do not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldProblem>,
    /// Whether the same request may be sent again as it is.
    pub retryable: bool,
    /// The facts of a rejection, as the rules tell them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::Json>))]
    pub rejection: Option<serde_json::Value>,
}

/// One field that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    pub field: String,
    pub problem: String,
}

impl Problem {
    pub fn new(status: u16, code: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:flowfabric:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_owned(),
            fields: Vec::new(),
            retryable: false,
            rejection: None,
        }
    }

    pub fn invalid(field: &str, problem: impl Into<String>) -> Problem {
        let problem = problem.into();
        let mut it = Problem::new(400, "invalid", "A field does not fit", format!("{field} {problem}"));
        it.fields.push(FieldProblem { field: field.to_owned(), problem });
        it
    }

    pub fn retryable(mut self) -> Problem {
        self.retryable = true;
        self
    }
}

impl From<&Rejection> for Problem {
    fn from(rejection: &Rejection) -> Problem {
        let mut problem =
            Problem::new(status(rejection), rejection.code(), title(rejection), rejection.to_string());
        if let Rejection::Invalid(invalid) = rejection {
            problem
                .fields
                .push(FieldProblem { field: invalid.field.to_string(), problem: invalid.problem.clone() });
        }
        problem.rejection = serde_json::to_value(rejection).ok();
        problem
    }
}

/// 400 for what can never be right, 404 for what is not there, 403 for what may not be, 409 for what does not fit
/// the state things are in.
fn status(rejection: &Rejection) -> u16 {
    match rejection {
        Rejection::Invalid(_) => 400,
        Rejection::NotFound { .. } | Rejection::WorkerUnknown { .. } => 404,
        Rejection::TokenRefused => 403,
        Rejection::TooManySignals { .. }
        | Rejection::TooManyTokenSignals { .. }
        | Rejection::TooManyWaitpoints { .. }
        | Rejection::TooManyChildren { .. }
        | Rejection::RegistryFull { .. } => 422,
        _ => 409,
    }
}

fn title(rejection: &Rejection) -> &'static str {
    match status(rejection) {
        400 => "A field does not fit",
        403 => "Not allowed",
        404 => "Not found",
        422 => "A limit is reached",
        _ => "Not allowed in this state",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::rejection::Invalid;

    #[test]
    fn a_field_that_does_not_fit_is_named() {
        let rejection = Rejection::Invalid(Invalid::new("kind", "has 0 bytes; allowed are 1 to 128"));
        let problem = Problem::from(&rejection);
        assert_eq!((problem.status, &*problem.code), (400, "invalid"));
        assert_eq!(problem.fields[0].field, "kind");
        assert_eq!(problem.kind, "urn:flowfabric:problem:invalid");
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
    }
}
