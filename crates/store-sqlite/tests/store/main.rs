//! What is particular to the SQLite store; what every store must do is in the conformance suite.

#![allow(clippy::unwrap_used)] // Every function in here is part of a test.

mod children;
mod desk;
mod faults;
mod files;
mod group;
mod inbox;
mod reading;
