//! Load generator and reports for FlowFabric.
