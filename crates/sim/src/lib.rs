//! The seeded simulator of FlowFabric and its invariant checkers.
//!
//! It runs the production [`Machine`](ff_engine::machine::Machine), two or three of them, over one memory
//! store, with a virtual clock and without threads. Everything follows from one seed: what is asked, how long
//! messages take, what fails and when. After every commit and every answer the checkers look; then the faults
//! stop and everything must end.
//!
//! | to read about | open |
//! |---|---|
//! | how a run goes | [`run`] |
//! | the seeds it begins with | [`regressions`] |
//! | what a seed draws | [`profile`], [`fault`] |
//! | servers, store, clients, workers, and what is between them | [`world`] |
//! | what must hold | [`check`] |
//! | defects that prove that the checkers look | [`bug`] |

pub mod bug;
pub mod check;
pub mod fault;
pub mod profile;
pub mod regressions;
pub mod rng;
pub mod run;
pub mod trace;
pub mod world;

pub use bug::Bug;
pub use fault::{Fault, Tally};
pub use run::{Options, Report, Summary, Violation, run_for, run_seed};
