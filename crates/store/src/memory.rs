//! The store that keeps everything in memory.

#[derive(Debug)]
pub struct MemoryStore;
