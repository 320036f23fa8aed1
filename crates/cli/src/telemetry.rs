//! Where the log goes, and the spans if somebody collects them.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::problem::Problem;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

impl Format {
    pub fn parse(text: &str) -> Result<Format, Problem> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(Problem::usage(format!("log_format is {shown:?}; allowed are text and json")))
            }
        }
    }
}

/// Ends what collects spans when it goes.
#[must_use]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    _spans: Option<spans::Spans>,
}

/// A level, or levels of parts: `warn,ff_server=debug`.
fn filter(text: &str) -> Result<EnvFilter, Problem> {
    let is_level = |it: &str| LEVELS.contains(&it.trim());
    let fits = |part: &str| is_level(part.split_once('=').map_or(part, |(_, level)| level));
    let parsed = EnvFilter::try_new(text).ok().filter(|_| text.split(',').all(fits));
    parsed.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        let allowed = "off, error, warn, info, debug and trace";
        Problem::usage(format!(
            "log is {shown:?}; allowed are {allowed}, also for parts: warn,ff_server=debug"
        ))
    })
}

/// Begins to log to standard error.
pub fn start(levels: &str, format: Format) -> Result<Telemetry, Problem> {
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let lines = tracing_subscriber::fmt::layer::<Registry>().with_writer(std::io::stderr).with_ansi(colours);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    let lines = lines.with_filter(filter(levels)?);
    #[cfg(not(feature = "otel"))]
    {
        tracing_subscriber::registry().with(lines).init();
        Ok(Telemetry {})
    }
    #[cfg(feature = "otel")]
    {
        let (layer, spans) = spans::start()?.unzip();
        tracing_subscriber::registry().with(lines.and_then(layer)).init();
        Ok(Telemetry { _spans: spans })
    }
}

/// Spans that are sent to a collector, by OTLP over HTTP.
#[cfg(feature = "otel")]
mod spans {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::{Layer, Registry};

    use crate::problem::Problem;

    /// Where the standard says that a collector is.
    const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

    /// Takes spans from the program.
    type Collector = Box<dyn Layer<Registry> + Send + Sync>;

    /// Sends them; what is left goes out when it is dropped.
    pub(super) struct Spans(SdkTracerProvider);

    impl Drop for Spans {
        fn drop(&mut self) {
            if let Err(error) = self.0.shutdown() {
                eprintln!("the last spans were not sent: {error}");
            }
        }
    }

    /// Nothing is collected unless the environment names a collector. It says everything else, too: service name,
    /// headers, sampling, batches.
    pub(super) fn start() -> Result<Option<(Collector, Spans)>, Problem> {
        if ENDPOINTS.iter().all(|name| std::env::var_os(name).is_none_or(|it| it.is_empty())) {
            return Ok(None);
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build();
        let exporter = exporter.map_err(|error| Problem::usage(format!("spans cannot be sent: {error}")))?;
        let resource = opentelemetry_sdk::Resource::builder();
        // The name that the environment gives wins.
        let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
            Some(_) => resource,
            None => resource.with_service_name("flowfabric"),
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("flowfabric"));
        Ok(Some((layer.with_filter(LevelFilter::DEBUG).boxed(), Spans(provider))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_all_or_for_parts_and_anything_else_is_refused() {
        for good in ["off", "warn", "info,ff_server=debug", "ff_engine=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["", "loud", "ff_server=loud", "info,loud"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
