//! FlowFabric over HTTP: routes, authentication, live streams, and what operators look at.
