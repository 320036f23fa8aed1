//! What is read from a request, with limits on size, depth and time, and errors that name the field.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use ff_api::Problem;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use crate::answer::Refusal;
use crate::app::App;

/// A JSON document from the body. An empty body is an empty object.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Body<T>, Refusal> {
        let Text(text) = Text::from_request(request, app).await?;
        Ok(Body(parse(&text)?))
    }
}

/// The text of a JSON document that has still to be parsed.
#[derive(Debug)]
pub struct Text(pub Bytes);

impl FromRequest<Arc<App>> for Text {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Text, Refusal> {
        check_type(&request)?;
        let bytes = read(request, app).await?;
        let text = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        check_object(&text)?;
        check_depth(&text, app.config.depth_max)?;
        Ok(Text(text))
    }
}

/// Pages of other sites cannot send this type without being asked first, so they cannot act through a browser.
fn check_type(request: &Request) -> Result<(), Refusal> {
    let value = request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let is_json = |value: &str| {
        let kind = value.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    };
    match value {
        Some(value) if is_json(value) => Ok(()),
        None if request.headers().get(header::CONTENT_LENGTH).is_none_or(|length| length == "0") => Ok(()),
        other => {
            let shown: String = other.unwrap_or("no type").chars().take(80).collect();
            let detail = format!("the body is {shown}; send Content-Type: application/json");
            Err(Problem::new(415, "not_json", "The body is not JSON", detail).into())
        }
    }
}

/// A signal is small, and its sender may be anybody: a token is looked at only when the body is there.
const SIGNAL_BYTES_MAX: usize = 512 << 10;

fn bytes_max(path: &str, app: &App) -> usize {
    let is_signal = path.starts_with("/w/") || path.ends_with("/signal");
    if is_signal { signal_bytes_max(app) } else { app.config.body_bytes_max }
}

/// The largest body of a signal.
pub fn signal_bytes_max(app: &App) -> usize {
    app.config.body_bytes_max.min(SIGNAL_BYTES_MAX)
}

/// The whole body, within the limits on size and time.
pub async fn read(request: Request, app: &App) -> Result<Bytes, Refusal> {
    let max = bytes_max(request.uri().path(), app);
    let too_large = || {
        let detail = format!("the body is larger than {max} bytes; send less at once");
        Problem::new(413, "too_large", "The body is too large", detail)
    };
    let announced =
        request.headers().get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > max) {
        return Err(too_large().into());
    }
    let reading = async {
        let mut body = request.into_body();
        let mut whole = BytesMut::new();
        let mut first = None::<Bytes>;
        while let Some(frame) = body.frame().await {
            let broken =
                |_| Problem::new(400, "body_broken", "The body broke off", "the body did not arrive whole");
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            if first.as_ref().map_or(0, Bytes::len) + whole.len() + data.len() > max {
                return Err(too_large());
            }
            // Most bodies come in one piece and need not be copied.
            match first.take() {
                None if whole.is_empty() => first = Some(data),
                None => whole.extend_from_slice(&data),
                Some(before) => {
                    whole.extend_from_slice(&before);
                    whole.extend_from_slice(&data);
                }
            }
        }
        Ok(first.unwrap_or_else(|| whole.freeze()))
    };
    match tokio::time::timeout(app.config.read_timeout, reading).await {
        Ok(read) => Ok(read?),
        Err(_) => {
            let detail = "the body took too long to arrive";
            Err(Problem::new(408, "body_slow", "The body came too slowly", detail).retryable().into())
        }
    }
}

/// A list of the values of a document, in order, is not the document: it would mean something else when fields are added.
fn check_object(text: &[u8]) -> Result<(), Refusal> {
    match text.trim_ascii_start().first() {
        Some(b'{') => Ok(()),
        _ => Err(Problem::invalid("body", "is not a JSON object").into()),
    }
}

/// Values that are only carried are not parsed, so their depth is counted here.
fn check_depth(text: &[u8], max: usize) -> Result<(), Refusal> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (true, _) => {}
            (false, b'[' | b'{') => {
                depth += 1;
                if depth > max {
                    return Err(Problem::invalid("body", format!("is nested deeper than {max}")).into());
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// A document from its text.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(text).map_err(|error| {
        // Where it went wrong is worked out only now, because most bodies are right.
        let deserializer = &mut serde_json::Deserializer::from_slice(text);
        let path =
            serde_path_to_error::deserialize::<_, T>(deserializer).err().map(|it| it.path().to_string());
        let field = path.filter(|path| path != "." && path != "?").unwrap_or_else(|| "body".to_owned());
        Problem::invalid(&field, format!("does not fit: {error}")).into()
    })
}

/// Options from the query. Unknown ones are errors, and so are empty ones: whoever forgets to fill in a filter must not
/// get everything.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        check_filled(query)?;
        let parsed = serde_html_form::from_str(query);
        parsed.map(Query).map_err(|error: serde_html_form::de::Error| {
            Problem::invalid("query", format!("does not fit: {error}")).into()
        })
    }
}

fn check_filled(query: &str) -> Result<(), Refusal> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match pairs.find(|(_, value)| value.is_empty()) {
        Some((name, _)) => {
            let shown: String = name.chars().take(40).collect();
            Err(Problem::invalid(&shown, "is empty; leave it out or give it a value").into())
        }
        None => Ok(()),
    }
}

/// A part of the path.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Refusal> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|it| Path(it.0)).map_err(|error| Problem::invalid("path", error.body_text()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_api::submit::Submission;

    fn refusal(text: &str) -> Problem {
        parse::<Submission>(text.as_bytes()).unwrap_err().0
    }

    #[test]
    fn a_body_that_does_not_fit_names_the_field() {
        let problem = refusal(r#"{"kind": 7}"#);
        assert_eq!(problem.fields[0].field, "kind");
        assert!(problem.detail.contains("expected a string"), "{}", problem.detail);
        assert_eq!(
            refusal(r#"{"kind": "a", "policy": {"max_attempts": "x"}}"#).fields[0].field,
            "policy.max_attempts"
        );
        assert!(refusal(r#"{"kind": "a", "colour": 1}"#).detail.contains("colour"));
        assert_eq!(refusal("{").fields[0].field, "body");
    }

    #[test]
    fn a_list_is_no_document_and_an_empty_option_no_option() {
        assert!(check_object(b" \n{}").is_ok());
        for text in ["[null, null]", "null", "7", " "] {
            assert_eq!(check_object(text.as_bytes()).unwrap_err().0.fields[0].field, "body", "{text}");
        }
        for good in ["", "a=1&b=2", "a=%20", "a=1&"] {
            assert!(check_filled(good).is_ok(), "{good}");
        }
        for bad in ["lane=", "a=1&lane=", "lane", "lane&a=1"] {
            assert_eq!(check_filled(bad).unwrap_err().0.fields[0].field, "lane", "{bad}");
        }
    }

    #[test]
    fn depth_is_counted_outside_strings_only() {
        assert!(check_depth(br#"{"a": "[[[[\"[[["}"#, 2).is_ok());
        assert!(check_depth(b"[[[]]]", 2).is_err());
        assert!(check_depth(b"[[],[],[]]", 2).is_ok());
    }
}
