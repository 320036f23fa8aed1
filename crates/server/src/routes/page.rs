//! A page on which a person who was sent a link approves or rejects. Opening it decides nothing.

use axum::Router;
use axum::extract::{Form, FromRequest as _, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ff_core::commands::{SendSignal, To};
use ff_core::rejection::Invalid;
use ff_core::suspension::{Effect, Ignored};
use ff_core::{Execution, Payload, Rejection};
use ff_engine::{Engine, Failure};
use serde::Deserialize;

use crate::answer::Refusal;
use crate::app::{App, Shared};
use crate::body::{Path, read};

/// Where a person decides. It is a page for people and not in the OpenAPI document.
pub const PATH: &str = "/w/{token}";

pub fn router() -> Router<Shared> {
    Router::new().route(PATH, get(show).post(decide))
}

/// How long what a person writes may be.
const TEXT_MAX: usize = 2_000;
/// The same of a name. Browsers count in UTF-16, of which 85 are never more than the 256 bytes that names have.
const NAME_MAX: usize = 85;

async fn show(State(app): State<Shared>, Path(token): Path<String>) -> Response {
    match app.engine.look_at_token(&token).await {
        Ok((execution, Some(waitpoint))) => {
            let name = waitpoint.name.as_ref().map_or("a decision", |name| name.as_str());
            let needs_name = if waitpoint.asks_for_source() { " required" } else { "" };
            let digest = waitpoint.digest.map_or_else(String::new, |digest| {
                format!("<dt>SHA-256 of the action</dt><dd><code>{digest}</code></dd>")
            });
            let body = format!(
                "<h1>{}</h1>{}{digest}</dl>\
                 <form method=\"post\">\
                 <label>Your name<input name=\"source\" maxlength=\"{NAME_MAX}\" autocomplete=\"name\"{needs_name}></label>\
                 <label>Comment<textarea name=\"comment\" rows=\"3\" maxlength=\"{TEXT_MAX}\"></textarea></label>\
                 <div><button name=\"decision\" value=\"approve\">Approve</button>\
                 <button name=\"decision\" value=\"reject\">Reject</button></div></form>",
                escaped(name),
                facts(&execution),
            );
            page(StatusCode::OK, "Decide", &body)
        }
        Ok((execution, None)) => decided(&format!("{}</dl>", facts(&execution))),
        Err(failure) => refused(failure),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    decision: String,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    source: String,
}

async fn decide(State(app): State<Shared>, Path(token): Path<String>, request: Request) -> Response {
    let Form(form) = match form(request, &app).await {
        Ok(form) => form,
        Err(StatusCode::PAYLOAD_TOO_LARGE) => return too_long(),
        Err(status) => {
            return page(status, "Not understood", "<h1>Not understood</h1><p>Go back and try again.</p>");
        }
    };
    let approved = match &*form.decision {
        "approve" => true,
        "reject" => false,
        _ => {
            let body = "<h1>Not understood</h1><p>Go back and choose one of the two.</p>";
            return page(StatusCode::BAD_REQUEST, "Not understood", body);
        }
    };
    if form.comment.len() > 4 * TEXT_MAX {
        return too_long();
    }
    let to = match Engine::token_target(&token) {
        Ok(to) => to,
        Err(failure) => return refused(failure),
    };
    match app.engine.signal(signal(to, approved, &form)).await {
        Ok(signalled) => told(approved, signalled.effect),
        Err(failure) => refused(failure),
    }
}

fn decided(facts: &str) -> Response {
    let body = format!("<h1>Already decided</h1>{facts}<p>Nothing is left to do here.</p>");
    page(StatusCode::OK, "Already decided", &body)
}

fn too_long() -> Response {
    let body = "<h1>The comment is too long</h1><p>Go back and shorten it.</p>";
    page(StatusCode::PAYLOAD_TOO_LARGE, "Too long", body)
}

/// What was filled in, within the limits of all bodies; the status to answer if it cannot be read.
async fn form(request: Request, app: &App) -> Result<Form<Decision>, StatusCode> {
    let (parts, body) = request.into_parts();
    let read = read(Request::from_parts(parts.clone(), body), app).await;
    let status = |refusal: Refusal| StatusCode::from_u16(refusal.0.status).unwrap_or(StatusCode::BAD_REQUEST);
    let form = Request::from_parts(parts, read.map_err(status)?.into());
    Form::from_request(form, &()).await.map_err(|_| StatusCode::BAD_REQUEST)
}

fn signal(to: To, approved: bool, form: &Decision) -> SendSignal {
    let source = form.source.trim();
    let payload = serde_json::json!({ "approved": approved, "comment": form.comment });
    let source = (!source.is_empty()).then(|| source.into());
    SendSignal { payload: Payload::json(payload.to_string()), source, ..SendSignal::new(to) }
}

fn told(approved: bool, effect: Effect) -> Response {
    let (title, text) = match effect {
        Effect::Ignored(Ignored::Closed) => ("Already decided", "Somebody was faster; nothing was changed."),
        Effect::Ignored(Ignored::NoSource) => ("Your name is missing", "Go back and write it."),
        Effect::Ignored(_) => {
            ("Not counted", "You are not among those who may decide this, or have decided before.")
        }
        Effect::Duplicate => ("Already received", "Your decision was received before."),
        _ if approved => ("Approved", "Thank you. You may close this page."),
        _ => ("Rejected", "Thank you. You may close this page."),
    };
    page(StatusCode::OK, title, &format!("<h1>{title}</h1><p>{text}</p>"))
}

/// One answer for every kind of wrong link. What is told of a good one is told to nobody else: what was filled in is looked
/// at before the link, and everything else after it.
fn refused(failure: Failure) -> Response {
    match failure {
        Failure::Rejected(Rejection::Terminal { .. }) => decided(""),
        Failure::Rejected(Rejection::Invalid(Invalid { field, problem })) => {
            let what = match &*field {
                "source" => "Your name",
                "payload" => "Your comment",
                other => other,
            };
            let told = escaped(&format!("{what} {problem}."));
            let body = format!("<h1>That cannot be taken</h1><p>{told} Go back and change it.</p>");
            page(StatusCode::BAD_REQUEST, "Not taken", &body)
        }
        Failure::Rejected(Rejection::TooManyTokenSignals { .. } | Rejection::TooManySignals { .. }) => {
            let body =
                "<h1>Too many decisions</h1><p>No more are taken with this link. Ask for a new one.</p>";
            page(StatusCode::UNPROCESSABLE_ENTITY, "Too many", body)
        }
        Failure::Rejected(_) => {
            let body = "<h1>This link is not good</h1><p>It may be mistyped, expired, or used up. Ask for a new one.</p>";
            page(StatusCode::NOT_FOUND, "Not good", body)
        }
        _ => {
            page(StatusCode::SERVICE_UNAVAILABLE, "Not now", "<h1>Not now</h1><p>Try again in a moment.</p>")
        }
    }
}

fn facts(execution: &Execution) -> String {
    format!(
        "<dl><dt>Task</dt><dd>{}</dd><dt>Execution</dt><dd><code>{}</code></dd>",
        escaped(&execution.spec.kind),
        execution.id
    )
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
        safe
    })
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:0;background:#f5f5f4;color:#1c1917}\
    main{max-width:32rem;margin:10vh auto;padding:2rem;background:#fff;border-radius:.75rem;box-shadow:0 1px 4px #0002}\
    h1{margin:0 0 1rem;font-size:1.4rem;overflow-wrap:anywhere}dt{color:#57534e;font-size:.85rem}\
    dd{margin:0 0 .6rem;overflow-wrap:anywhere}label{display:block;margin:.8rem 0}\
    input,textarea{display:block;width:100%;box-sizing:border-box;padding:.5rem;font:inherit;border:1px solid #a8a29e;\
    border-radius:.4rem}button{font:inherit;padding:.6rem 1.4rem;margin:.5rem .8rem 0 0;border:0;border-radius:.4rem;\
    background:#166534;color:#fff;cursor:pointer}button[value=reject]{background:#991b1b}\
    @media(prefers-color-scheme:dark){body{background:#0c0a09;color:#fafaf9}main{background:#1c1917}dt{color:#a8a29e}\
    input,textarea{background:#0c0a09;color:inherit}}";

fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    );
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
            ),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, html).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_become_markup() {
        assert_eq!(escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}
