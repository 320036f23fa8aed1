//! The server as its callers see it: over a socket.

#![allow(clippy::unwrap_used, clippy::expect_used)] // In tests a failed step is a failed test.

mod asked;
mod bad_input;
mod bounds;
mod bulk;
mod claims;
mod clients;
mod connections;
mod filters;
mod flows;
mod letters;
mod namespaces;
mod openapi;
mod operators;
mod page;
mod queue;
mod roles;
mod signals;
mod single;
mod stand;
mod streams;
mod webhooks;
mod work;
