//! The built binary, run as people and programs run it. Each test has a folder and a store of its own.

// A stand that cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod bench;
mod bulk;
mod copying;
mod demo;
mod flows;
mod health;
mod help;
mod jobs;
mod mail;
mod operations;
mod postgres;
mod reading;
mod serving;
mod settings;
mod single;
mod stand;
mod through_server;
mod waiting;
mod worker;
