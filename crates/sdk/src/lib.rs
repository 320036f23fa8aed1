//! Durable executions for Rust programs: submit work, run workers, wait for results.
