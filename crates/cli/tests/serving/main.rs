//! `flowfabric serve` as a process of its own: how it leaves, and how many it holds.

// A stand that cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

mod crowd;
mod leaving;
mod served;
