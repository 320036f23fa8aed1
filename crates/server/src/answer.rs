//! Answers: public documents, or stored records for callers that share the rules.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ff_api::Problem;
use ff_api::problem::PROBLEM_JSON;
use ff_api::record::RECORD_JSON;
use ff_core::Reply;
use serde::Serialize;

/// Which form of an answer the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    Documents,
    Records,
}

impl<S: Sync> FromRequestParts<S> for Wants {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Wants, Infallible> {
        let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let records = accept.is_some_and(|accept| accept.contains(RECORD_JSON));
        Ok(if records { Wants::Records } else { Wants::Documents })
    }
}

impl Wants {
    /// The same thing in the form that is wanted.
    pub fn answer<D: Serialize, R: Serialize>(
        self,
        document: impl FnOnce() -> D,
        record: impl FnOnce() -> R,
    ) -> Response {
        self.answer_with(StatusCode::OK, document, record)
    }

    pub fn answer_with<D: Serialize, R: Serialize>(
        self,
        status: StatusCode,
        document: impl FnOnce() -> D,
        record: impl FnOnce() -> R,
    ) -> Response {
        match self {
            Wants::Documents => json(status, "application/json", &document()),
            Wants::Records => json(status, RECORD_JSON, &record()),
        }
    }

    /// The reply to a command.
    pub fn reply<D: Serialize>(self, reply: &Reply, document: impl FnOnce(&Reply) -> Option<D>) -> Response {
        match self {
            Wants::Records => json(StatusCode::OK, RECORD_JSON, reply),
            Wants::Documents => match document(reply) {
                Some(document) => json(StatusCode::OK, "application/json", &document),
                None => Refusal(odd_reply(reply)).into_response(),
            },
        }
    }
}

pub fn odd_reply(reply: &Reply) -> Problem {
    tracing::error!(?reply, "the engine gave an answer to another question");
    Problem::new(500, "internal", "Internal error", "the server gave an answer to another question")
}

pub fn json<T: Serialize>(status: StatusCode, content_type: &'static str, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => {
            let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))];
            (status, headers, Bytes::from(bytes)).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A problem as an answer.
#[derive(Debug)]
pub struct Refusal(pub Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        Refusal(problem)
    }
}

impl From<ff_core::rejection::Invalid> for Refusal {
    fn from(invalid: ff_core::rejection::Invalid) -> Refusal {
        Refusal(Problem::from(&ff_core::Rejection::Invalid(invalid)))
    }
}

impl From<ff_engine::Failure> for Refusal {
    fn from(failure: ff_engine::Failure) -> Refusal {
        Refusal(crate::app::problem(failure))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(status, PROBLEM_JSON, &self.0);
        if self.0.retryable {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"flowfabric\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// What every route may answer instead.
#[derive(Debug, utoipa::IntoResponses)]
#[allow(dead_code, reason = "only its schema is used")]
pub enum Problems {
    /// Something in the request does not fit; `fields` says what.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(Problem),
    /// A token is missing, or not good.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(Problem),
    /// The token is not good for this.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// There is no such thing.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(Problem),
    /// The route does not take this method.
    #[response(status = 405, content_type = "application/problem+json")]
    OtherMethod(Problem),
    /// The body took too long to arrive.
    #[response(status = 408, content_type = "application/problem+json")]
    TooSlow(Problem),
    /// It is not allowed in the state things are in.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(Problem),
    /// Something is too large.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
    /// The body is not JSON.
    #[response(status = 415, content_type = "application/problem+json")]
    NotJson(Problem),
    /// A limit is reached.
    #[response(status = 422, content_type = "application/problem+json")]
    Limit(Problem),
    /// Too many requests; try again later.
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(Problem),
    /// Something is wrong inside the server; nothing was changed.
    #[response(status = 500, content_type = "application/problem+json")]
    Internal(Problem),
    /// The store cannot be reached, or the server stops; try again.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
    /// It was sent to the store, and whether it is stored could not be found out in time; ask again.
    #[response(status = 504, content_type = "application/problem+json")]
    OutcomeUnknown(Problem),
}
