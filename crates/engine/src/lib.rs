//! The engine of FlowFabric: runners, batching, agenda, claim dispatch, subscriptions.
