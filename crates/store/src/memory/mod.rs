//! The store that keeps everything in memory: the reference that other stores are compared with.
//!
//! [`MemoryState`] is the whole store as a plain value: no locks, no clock, no randomness, so that a simulator
//! can step it and look inside. [`MemoryStore`] makes it a [`Store`](crate::Store), and [`Faults`] makes that
//! store fail, stall, or lose an answer on demand.
//!
//! It promises the contract and nothing more: nothing survives the process.

mod answers;
mod faults;
mod graph;
mod log;
mod mail;
mod partition;
mod reads;
mod state;
mod store;

pub use faults::Faults;
pub use partition::Partition;
pub use state::MemoryState;
pub use store::MemoryStore;
