//! Several fabrics on one PostgreSQL database, as several servers would be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../background/mod.rs"]
mod background;
mod differential;
mod errands;
mod ground;
mod inbox;
mod interruptions;
mod large_flows;
mod measured;
mod servers;
