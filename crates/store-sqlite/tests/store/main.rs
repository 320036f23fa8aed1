//! What is particular to the SQLite store; what every store must do is in the conformance suite.

mod children;
mod desk;
mod faults;
mod files;
mod group;
mod reading;
