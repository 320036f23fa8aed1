//! `flowfabric serve`

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, FromArgMatches as _};
use ff_server::webhooks::Targets;
use ff_server::{Config, Tls};
use flowfabric::{Fabric, NewToken};
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// Serve the HTTP API, so that clients and workers need no store of their own
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric serve
  flowfabric serve --store postgres://localhost/jobs --listen 127.0.0.1:7400
  flowfabric serve --listen 0.0.0.0:7400 --auth --tls-cert cert.pem --tls-key key.pem

On a loopback address nobody needs a token. On any other address every caller does: with --auth the first token, of
the role admin, is made at the first start and printed once; `flowfabric token` makes more.")]
pub struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    listen: String,
    /// Every caller needs a token
    #[arg(long)]
    auth: bool,
    /// The certificate, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front of this server does TLS
    #[arg(long)]
    plain_http: bool,
    /// How large the body of a request may be, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    body_max: usize,
    /// How many connections may be open at once
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    connections_max: usize,
    /// How many requests one token or address may send in a second; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    requests_per_second: u32,
    /// Webhooks may lead to loopback and private addresses
    #[arg(long)]
    allow_private_webhooks: bool,
    /// Authorities that https receivers of webhooks are checked with beside those of the machine, as a PEM file
    #[arg(long, value_name = "FILE")]
    webhook_ca: Option<PathBuf>,
    /// How long one request may wait for something to happen
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "60s")]
    #[arg(allow_hyphen_values = true)]
    wait_max: Duration,
    /// How long requests are still taken when the server is asked to stop and /readyz says so; a second signal ends it
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "0s")]
    #[arg(allow_hyphen_values = true)]
    drain_delay: Duration,
    /// How long requests may go on when the server is asked to stop
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "20s")]
    #[arg(allow_hyphen_values = true)]
    grace: Duration,
}

impl Serve {
    /// With this address and everything else as it is by default.
    pub fn at(address: &str) -> Result<Serve, Problem> {
        let command = Serve::augment_args(clap::Command::new("serve").no_binary_name(true));
        let read = command.try_get_matches_from(["--listen", address]);
        let read = read.and_then(|it| Serve::from_arg_matches(&it));
        let serve = read.map_err(|error| Problem::usage(error.to_string()))?;
        serve.check()?;
        Ok(serve)
    }

    /// Whether a server may start like this; what it says comes with what to do.
    pub fn check(&self) -> Result<Config, Problem> {
        let config = self.config()?;
        config.check().map_err(|error| Problem::usage(error.to_string()))?;
        Ok(config)
    }

    pub fn address(&self) -> &str {
        &self.listen
    }

    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let config = self.check()?;
        session::with(&settings.embedded()?, Open::OrCreate, Patience::Long, async |fabric| {
            self.serve(fabric, config, settings).await
        })
        .await
    }

    async fn serve(&self, fabric: Fabric, config: Config, settings: &Settings) -> Result<(), Problem> {
        let engine = fabric.engine().ok_or_else(|| Problem::error("there is no engine here"))?.clone();
        if config.authentication {
            first_token(&fabric, settings).await?;
        }
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let started = ff_server::start(engine.clone(), config).await;
        let server = started.map_err(|error| Problem::error(error.to_string()))?;
        let targets = if self.allow_private_webhooks { Targets::Any } else { Targets::Public };
        let authorities = self.webhook_ca.clone();
        let options = ff_server::webhooks::Options { targets, authorities, ..Default::default() };
        let deliveries = ff_server::webhooks::start(engine.clone(), options);
        let bulks = engine.run_bulks();
        let (url, store) =
            (format!("{scheme}://{}", server.address), session::without_password(&settings.store));
        // Whoever reads where it listens may ask it to end at once.
        let end = flowfabric::asked_to_end();
        if settings.json {
            view::json_line(&json!({ "listening": url, "store": store }))?;
        } else {
            view::line(&format!("listening on {url}, store {store}"))?;
        }
        end.await;
        // From here on, so that nobody who asks again is overheard.
        let again = flowfabric::asked_to_end();
        server.leave();
        tokio::select! {
            () = tokio::time::sleep(self.drain_delay) => {}
            () = again => {}
        }
        let stopped = server.stop().await;
        deliveries.stop().await;
        bulks.stop().await;
        if !stopped.drained {
            eprintln!("some requests had not ended within the grace and were cut off");
        }
        Ok(())
    }

    fn config(&self) -> Result<Config, Problem> {
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        Ok(Config {
            address: address(&self.listen)?,
            authentication: self.auth,
            tls: tls.map(|(certificate, key)| Tls { certificate, key }),
            plain_http: self.plain_http,
            body_bytes_max: self.body_max,
            connections_max: self.connections_max,
            requests_per_second: self.requests_per_second,
            wait_max: self.wait_max,
            grace: self.grace,
            ..Config::default()
        })
    }
}

fn address(text: &str) -> Result<SocketAddr, Problem> {
    let wrong = || {
        let shown: String = text.chars().take(80).collect();
        Problem::usage(format!("listen is {shown:?}; allowed are a host and a port, such as 127.0.0.1:7400"))
    };
    text.to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)
}

/// Without any token nobody could make one.
async fn first_token(fabric: &Fabric, settings: &Settings) -> Result<(), Problem> {
    if !fabric.tokens().await?.is_empty() {
        return Ok(());
    }
    let new = NewToken {
        name: "first-admin".to_owned(),
        role: "admin".to_owned(),
        namespaces: Vec::new(),
        see_payloads: true,
        expires_in_ms: None,
        actor: Some("serve".to_owned()),
        cause: Some("the first start with authentication".to_owned()),
    };
    let (token, secret) = fabric.create_token(new).await?;
    if settings.json {
        return view::json_line(&json!({ "token": token, "secret": secret }));
    }
    view::line(&format!("first token, role admin, shown only now: {secret}"))
}
