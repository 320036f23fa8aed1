//! The built binary, run as people and programs run it. Each test has a folder and a store of its own.

mod bad_input;
mod demo;
mod help;
mod operations;
mod reading;
mod settings;
mod stand;
mod worker;
