//! The documents of the HTTP API: what is asked, what is answered, and how both relate to the rules in the core.
//!
//! Requests are plain text and numbers that become commands ([`Invalid`](ff_core::rejection::Invalid) names the field
//! that does not fit); answers are what people and programs in any language read. Programs that share the rules (the
//! SDK) ask for [`record`]s instead and get the stored types themselves.

#[macro_use]
mod macros;

pub mod access;
pub mod bulk;
pub mod event;
pub mod execution;
pub mod fields;
pub mod flow;
pub mod inbox;
pub mod lane;
pub mod limits;
pub mod mail;
pub mod namespace;
pub mod output;
pub mod payload;
pub mod problem;
pub mod record;
pub mod submit;
pub mod task;
pub mod time;
pub mod webhook;
pub mod worker;

pub use payload::{Encoded, Json};
pub use problem::Problem;
pub use time::{Span, Time};
