//! Flows: graphs of executions, drawn with handles, submitted at once, grown while they run.
//!
//! | to read about | open |
//! |---|---|
//! | drawing a graph | [`FlowBuilder`], [`Node`], [`Upstream`] |
//! | a node that is a flow | [`ChildFlow`] |
//! | what is checked before anything is sent | `sketch` |
//! | how more than one call's worth is sent | `parts`, and `together` for what may not be cut |
//! | a flow that exists | [`FlowRun`], and [`Growth`] to add to it |
//! | its result | `result` |
//! | a handler that adds what comes after it | [`Expansion`] |
//! | finding flows | [`FlowList`] |

mod builder;
mod child;
mod drawing;
mod expansion;
mod growth;
mod listing;
mod node;
mod operations;
mod parts;
mod result;
mod run;
mod sketch;
mod together;

pub use builder::FlowBuilder;
pub use child::ChildFlow;
pub use drawing::Drawing;
pub use expansion::Expansion;
pub use growth::Growth;
pub use listing::{FlowList, FlowPage};
pub use node::{Node, Upstream, Upstreams};
pub use operations::FlowCancelled;
pub use result::{Culprit, FlowNotCompleted};
pub use run::FlowRun;
