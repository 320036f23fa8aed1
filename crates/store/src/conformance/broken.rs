//! Stores that are broken on purpose.
