//! The bare client: what PostgreSQL itself can do with the same rows in the same calls.
