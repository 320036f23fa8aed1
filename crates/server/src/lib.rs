//! FlowFabric over HTTP: routes, authentication, live streams, and what operators look at.
//!
//! | to read about | open |
//! |---|---|
//! | settings and what is refused at start | [`config`] |
//! | sockets, TLS, limits, shutdown | [`listen`], `patience` |
//! | who calls, and what the caller may do | [`access`] |
//! | what is read from a request, what is answered | [`body`], [`answer`] |
//! | one file per family of routes | [`routes`] |
//! | what the OpenAPI document says of them | `document` |
//! | what operators watch, and what the log says | [`metrics`], `trace` |
//! | tasks that were handed out and not confirmed | [`claims`] |
//! | events delivered to addresses outside | [`webhooks`] |

pub mod access;
pub mod answer;
pub mod app;
pub mod body;
pub mod claims;
pub mod config;
mod document;
pub mod listen;
pub mod metrics;
mod patience;
mod rate;
mod readiness;
mod request_id;
pub mod routes;
mod stream;
mod trace;
pub mod webhooks;

pub use config::{Config, ConfigError, Tls};
pub use listen::{Running, Stopped, start};
pub use routes::openapi;
