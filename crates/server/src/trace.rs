//! What the log says of a request: its id, its route, who sent it, and the trace it is a part of.

use axum::http::{HeaderMap, Method};
use tracing::field::Empty;
use tracing::{Span, debug_span};

/// The caller's place in a trace, as W3C's `traceparent` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent<'a> {
    pub trace_id: &'a str,
    pub span_id: &'a str,
    /// Whether the caller records it.
    pub sampled: bool,
}

impl<'a> Parent<'a> {
    pub fn of(headers: &'a HeaderMap) -> Option<Parent<'a>> {
        Parent::parse(headers.get("traceparent")?.to_str().ok()?)
    }

    fn parse(text: &'a str) -> Option<Parent<'a>> {
        let mut parts = text.split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
        };
        let fits = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace_id, 32)
            && is_hex(span_id, 16)
            && is_hex(flags, 2)
            // Later versions may have more parts; this one has not.
            && (version != "00" || parts.next().is_none());
        let is_zero = |part: &str| part.bytes().all(|it| it == b'0');
        if !fits || is_zero(trace_id) || is_zero(span_id) {
            return None;
        }
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        Some(Parent { trace_id, span_id, sampled })
    }
}

/// The span of a request. Its actor is known only when its token was looked at.
pub fn request(id: &str, method: &Method, route: Option<&str>, headers: &HeaderMap) -> Span {
    let route = route.unwrap_or("none");
    let span = debug_span!("request", request_id = id, %method, route, actor = Empty, trace_id = Empty);
    if !span.is_disabled()
        && let Some(parent) = Parent::of(headers)
    {
        span.record("trace_id", parent.trace_id);
        #[cfg(feature = "otel")]
        otel::set_parent(&span, parent);
    }
    span
}

/// Notes who sent the request that is worked on.
pub fn actor(name: &str) {
    Span::current().record("actor", name);
}

#[cfg(feature = "otel")]
mod otel {
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    use super::Parent;

    pub(super) fn set_parent(span: &tracing::Span, parent: Parent<'_>) {
        let ids = (TraceId::from_hex(parent.trace_id), SpanId::from_hex(parent.span_id));
        let (Ok(trace), Ok(caller)) = ids else { return };
        let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let remote = SpanContext::new(trace, caller, flags, true, TraceState::default());
        // Nobody exports spans here if it is refused.
        let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_taken_as_w3c_writes_it_and_anything_else_is_none() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = Parent::parse(good).unwrap();
        assert_eq!(parent.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((parent.span_id, parent.sampled), ("00f067aa0ba902b7", true));
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more";
        assert!(Parent::parse(later).is_some_and(|it| !it.sampled));
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Parent::parse(bad), None, "{bad}");
        }
    }
}
