//! `flowfabric serve` as a process of its own: how it leaves, how many it holds, what it logs.

// A stand that cannot be set up is a failed test.
#![allow(clippy::unwrap_used)]

mod crowd;
mod leaving;
mod logs;
mod served;
