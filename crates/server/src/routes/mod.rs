//! The routes, one file per family, and the OpenAPI document that is made of them.

mod asked;
mod attempts;
mod batch;
mod bulk;
mod claiming;
mod events;
mod executions;
mod flow_changes;
mod flows;
mod health;
mod keys;
mod lanes;
mod letters;
mod namespaces;
mod operate;
mod page;
mod reading;
mod signals;
mod streams;
mod submit;
mod tasks;
mod tokens;
mod veil;
mod webhooks;
mod workers;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ff_api::Problem;
use ff_api::flow::ChildRequest;
use ff_core::suspension::Token;
use ff_engine::AccessSecret;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use tracing::Instrument as _;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, Info, OpenApi, OpenApiBuilder, SecurityRequirement};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::bearer;
use crate::answer::Refusal;
use crate::app::{App, Shared};
use crate::listen::HEAD_BYTES_MAX;
use crate::rate::Sender;
use crate::{document, trace};

/// How many items a page has at most.
const PAGE_MAX: u32 = 10_000;

/// What a browser says of the site that a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Answers below this size are not worth compressing.
const COMPRESS_ABOVE: u64 = 1_024;

fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(head())
        .routes(routes!(submit::submit, executions::list))
        .routes(routes!(executions::count))
        .routes(routes!(executions::counts))
        .routes(routes!(executions::get, operate::remove))
        .routes(routes!(executions::input))
        .routes(routes!(executions::result))
        .routes(routes!(attempts::attempts))
        .routes(routes!(attempts::explain))
        .routes(routes!(attempts::steps))
        .routes(routes!(events::of_execution))
        .routes(routes!(streams::stream))
        .routes(routes!(operate::cancel))
        .routes(routes!(operate::replay))
        .routes(routes!(operate::hold))
        .routes(routes!(operate::release))
        .routes(routes!(operate::priority))
        .routes(routes!(operate::revoke))
        .routes(routes!(operate::resume))
        .routes(routes!(operate::tags))
        .routes(routes!(signals::signal_execution))
        .routes(routes!(signals::list_of_execution))
        .routes(routes!(signals::waitpoints))
        .routes(routes!(signals::waitpoint))
        .routes(routes!(signals::signal_waitpoint))
        .routes(routes!(signals::issue_token))
        .routes(routes!(flows::create, flows::list))
        .routes(routes!(flows::get))
        .routes(routes!(flows::members))
        .routes(routes!(flows::graph))
        .routes(routes!(flows::result))
        .routes(routes!(flows::edges))
        .routes(routes!(flows::edge))
        .routes(routes!(flow_changes::nodes))
        .routes(routes!(flow_changes::add_edges))
        .routes(routes!(flow_changes::seal))
        .routes(routes!(flow_changes::policy))
        .routes(routes!(flow_changes::cancel))
        .routes(routes!(flow_changes::tags))
        .routes(routes!(workers::register, workers::list))
        .routes(routes!(claiming::claim))
        .routes(routes!(claiming::heartbeat))
        .routes(routes!(workers::drain))
        .routes(routes!(workers::get, workers::leave))
        .routes(routes!(tasks::complete))
        .routes(routes!(tasks::fail))
        .routes(routes!(tasks::delay))
        .routes(routes!(tasks::release))
        .routes(routes!(tasks::progress))
        .routes(routes!(tasks::suspend))
        .routes(routes!(tasks::steps))
        .routes(routes!(tasks::frames))
        .routes(routes!(tasks::waitpoint))
        .routes(routes!(tasks::child))
        .routes(routes!(tasks::expand))
        .routes(routes!(lanes::list))
        .routes(routes!(lanes::get, lanes::change))
        .routes(routes!(namespaces::list))
        .routes(routes!(namespaces::get))
        .routes(routes!(keys::list))
        .routes(routes!(keys::rotate))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::get, tokens::revoke))
        .routes(routes!(webhooks::list))
        .routes(routes!(webhooks::get, webhooks::set, webhooks::remove))
        .routes(routes!(bulk::cancel))
        .routes(routes!(bulk::replay))
        .routes(routes!(bulk::priority))
        .routes(routes!(bulk::list))
        .routes(routes!(bulk::get))
        .routes(routes!(bulk::stop))
        .routes(routes!(letters::list))
        .routes(routes!(letters::get, letters::remove))
        .routes(routes!(letters::repost))
        .routes(routes!(events::all))
        .routes(routes!(health::info))
        .routes(routes!(health::limits))
        .routes(routes!(health::stats))
        .routes(routes!(health::metrics))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

fn head() -> OpenApi {
    let mut info = Info::new("FlowFabric", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Durable executions, flows, suspensions, live output and events. Problems are RFC 9457 documents with a \
         documented `code`."
            .to_owned(),
    );
    // Documents that hold themselves are not found by following them.
    let mut components = ComponentsBuilder::new().schema_from::<ChildRequest>().build();
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    components.add_security_scheme("token", scheme);
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build()
}

/// The OpenAPI document of all routes.
pub fn openapi() -> serde_json::Value {
    document::of(routes().into_openapi())
}

/// The paths of all routes, as they are counted.
pub fn paths() -> impl Iterator<Item = String> {
    let documented = routes().into_openapi().paths.paths.into_keys();
    documented.chain(["/openapi.json", page::PATH].map(str::to_owned))
}

/// All routes with what stands around them.
pub fn router(app: Arc<App>) -> Router {
    let (router, document) = routes().split_for_parts();
    let document = document::of(document);
    asked::learn(&document);
    let text = Bytes::from(document.to_string());
    let served = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text) }
    };
    let small = SizeAbove::new(COMPRESS_ABOVE).and(NotForContentType::const_new("text/event-stream"));
    router
        .route("/openapi.json", axum::routing::get(served))
        .merge(page::router())
        .fallback(nothing_here)
        .method_not_allowed_fallback(other_method)
        .layer(CompressionLayer::new().compress_when(small))
        .layer(axum::middleware::from_fn_with_state(app.clone(), around))
        .with_state(app)
}

async fn nothing_here() -> Refusal {
    let detail = "there is no such route; /openapi.json lists them all";
    Problem::new(404, "no_route", "No such route", detail).into()
}

/// A head that is too long reaches no route; it is counted and has an id all the same.
pub fn head_too_large(app: &App, headers: &HeaderMap) -> Response {
    let detail =
        format!("the head of the request has more than {HEAD_BYTES_MAX} bytes; send shorter headers");
    let problem = Problem::new(431, "head_too_large", "Head too large", detail);
    let mut response = Refusal(problem).into_response();
    app.requests.add(None, response.status().as_u16(), None);
    response.headers_mut().insert("x-request-id", app.request_ids.of(headers));
    response
}

async fn other_method(method: Method) -> Refusal {
    let detail = format!("this route does not take {method}; /openapi.json says what it takes");
    Problem::new(405, "other_method", "Another method", detail).into()
}

/// Stands around every request: who may speak to a server without tokens, an id for the request, a line in the log.
///
/// Not an async function: most requests wait, and each would keep room for everything that was only looked at first.
fn around(
    State(app): State<Shared>,
    mut request: Request,
    next: Next,
) -> impl Future<Output = Response> + Send + use<> {
    let seen = Seen::note(&app, &mut request);
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|it| it.0.ip());
    let span = seen.span.clone();
    let fits = check_origin(&app, &request).and_then(|()| asked::check(&request));
    // Whoever looks after the server must not take a busy caller on the same address for its end.
    let is_health = matches!(request.uri().path(), "/healthz" | "/readyz");
    let answering: Pin<Box<dyn Future<Output = Response> + Send>> = if app.rates.is_limited() && !is_health {
        let app = app.clone();
        Box::pin(async move {
            // What does not fit counts as well.
            match Box::pin(check_rate(&app, request.headers(), peer)).await.and(fits) {
                Ok(()) => next.run(request).instrument(span).await,
                Err(problem) => Refusal(problem).into_response(),
            }
        })
    } else {
        match fits {
            Ok(()) => Box::pin(next.run(request).instrument(span)),
            Err(problem) => Box::pin(std::future::ready(Refusal(problem).into_response())),
        }
    };
    async move {
        let mut response = answering.await;
        seen.tell(&app, &mut response);
        response
    }
}

/// What is remembered of a request until it is answered.
struct Seen {
    id: HeaderValue,
    method: Method,
    path: String,
    route: Option<String>,
    waits: bool,
    span: tracing::Span,
    started: Instant,
}

impl Seen {
    fn note(app: &App, request: &mut Request) -> Box<Seen> {
        let id = app.request_ids.of(request.headers());
        request.headers_mut().insert("x-request-id", id.clone());
        let (method, path) = (request.method().clone(), masked(request.uri().path()).into_owned());
        let route = request.extensions().get::<MatchedPath>().map(|it| it.as_str().to_owned());
        let waits = request.uri().query().is_some_and(|it| it.contains("wait="))
            || path.ends_with("/claim")
            || path.ends_with("/heartbeat");
        let request_id = id.to_str().unwrap_or("none");
        let span = trace::request(request_id, &method, route.as_deref(), request.headers());
        Box::new(Seen { id, method, path, route, waits, span, started: Instant::now() })
    }

    fn tell(self, app: &App, response: &mut Response) {
        let Seen { id, method, path, route, waits, span, started } = self;
        let (status, took) = (response.status(), started.elapsed());
        let (code, took_us) = (status.as_u16(), took.as_micros());
        let request_id = id.to_str().unwrap_or("none");
        span.in_scope(|| match status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            // Where only what is wrong is logged, there is no span that tells of the request.
            true => tracing::warn!(%method, path, status = code, took_us, request_id, "request failed"),
            false => tracing::debug!(path, status = code, took_us, "answered"),
        });
        app.requests.add(route.as_deref(), status.as_u16(), (!waits).then_some(took));
        let headers = response.headers_mut();
        headers.insert("x-request-id", id);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
}

/// Whether its sender has sent too many.
async fn check_rate(app: &App, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<(), Problem> {
    let token = match bearer(headers) {
        Ok(Some(secret)) => app.engine.token_of(secret).await.ok().flatten(),
        _ => None,
    };
    app.rates.check(&token.map_or(Sender::at(peer), |token| Sender::Token(token.hash)))
}

/// Whether it is the page on which a person decides, which has a token in its path.
fn is_page(path: &str) -> bool {
    path.starts_with("/w/")
}

/// What may be written down of a path: tokens in it may not, also where they do not belong.
pub fn masked(path: &str) -> Cow<'_, str> {
    let is_secret = |part: &str| Token::looks_like(part) || AccessSecret::looks_like(part);
    if is_page(path) {
        return "/w/…".into();
    }
    if !path.split('/').any(is_secret) {
        return path.into();
    }
    path.split('/').map(|part| if is_secret(part) { "…" } else { part }).collect::<Vec<_>>().join("/").into()
}

/// A page of another site must not act on a server that trusts everybody on its machine: neither under a name of its
/// own that leads here, nor from its own address. Browsers do not name the origin of everything they fetch, but they say
/// whether it is another one. The page on which a person decides needs no such care: only its token
/// lets anybody do anything, and a browser that is told to keep that to itself does not say where its form comes from.
fn check_origin(app: &App, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let refused = |detail: &str| Err(Problem::new(403, "other_site", "Not allowed from there", detail));
    if !app.config.authentication && !is_loopback_name(host) {
        return refused("a server without authentication answers to localhost and loopback addresses only");
    }
    if is_page(request.uri().path()) {
        return Ok(());
    }
    let elsewhere = |origin: &str| origin.split_once("://").map(|(_, rest)| rest) != Some(host);
    let foreign = text(header::ORIGIN).is_some_and(elsewhere)
        || text(SEC_FETCH_SITE).is_some_and(|site| matches!(site, "cross-site" | "same-site"));
    match foreign {
        true => refused("requests that a page of another site makes are not answered"),
        false => Ok(()),
    }
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|it: std::net::IpAddr| it.is_loopback())
}

/// Puts the key of the header where a key of the body would be, which may say the same and nothing else.
fn take_key(headers: &HeaderMap, field: &str, key: &mut Option<String>) -> Result<(), Problem> {
    let Some(given) = headers.get("idempotency-key") else { return Ok(()) };
    let wrong = |problem: String| Problem::invalid("Idempotency-Key", problem);
    let given = given.to_str().map_err(|_| wrong("is not plain text".to_owned()))?;
    if key.as_deref().is_some_and(|it| it != given) {
        return Err(wrong(format!("differs from {field} in the body; give one of them")));
    }
    *key = Some(given.to_owned());
    Ok(())
}

/// How long a request wants to wait.
fn wait(app: &App, text: Option<&str>) -> Result<Duration, Refusal> {
    let ms = text.map_or(Ok(0), |text| ff_core::duration::parse("wait", text))?;
    Ok(app.patience("wait", ms)?)
}

/// How many items a page has.
fn page_limit(limit: Option<u32>) -> Result<usize, Refusal> {
    match limit.unwrap_or(100) {
        limit @ 1..=PAGE_MAX => Ok(limit as usize),
        limit => Err(Problem::invalid("limit", format!("is {limit}; allowed are 1 to {PAGE_MAX}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_lead_to_a_server_without_tokens() {
        for host in ["localhost", "localhost:7400", "127.0.0.1:7400", "[::1]:7400", "LOCALHOST", "127.1.2.3"]
        {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in ["", "example.org", "localhost.example.org", "127.0.0.1.example.org", "10.0.0.1", "[::2]"]
        {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[test]
    fn a_token_in_a_path_is_masked() {
        assert_eq!(masked("/w/v1.1.abc"), "/w/…");
        assert_eq!(masked("/v1/executions"), "/v1/executions");
        assert_eq!(masked("/v1/executions/v1.1.0197f3a2-1.ab/x"), "/v1/executions/…/x");
    }
}
