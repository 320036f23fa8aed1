//! The seeded simulator of FlowFabric and its invariant checkers.
