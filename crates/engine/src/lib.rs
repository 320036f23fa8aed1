//! The engine: takes commands, decides them in batches against the core, commits them to a store, answers.
//!
//! | to read about | open |
//! |---|---|
//! | the in-process API | [`Engine`] |
//! | what is asked about flows | [`flows`] |
//! | waitpoints, signals, steps, keys | [`mail`] |
//! | access tokens, webhooks | [`registry`] |
//! | the same done to many executions | [`bulk`] |
//! | posted rows that could not become executions | [`letters`] |
//! | live output | [`tail`] |
//! | what decides and when, without any I/O | [`machine`] |
//! | the thread that feeds the machine and carries out what it asks for | [`driver`] |
//! | events as they happen | [`subscription`], [`cursor`] |
//! | why something does not run | [`explain`] |
//! | what the log says of all this | `spans` |
//! | how long things took, and how long they wait | [`meters`], `queue` |
//! | whether everything in a store agrees | [`doctor`] |
//! | moving to another store | [`transfer`] |

pub mod bulk;
pub mod config;
pub mod cursor;
pub mod doctor;
pub mod driver;
pub mod engine;
pub mod explain;
pub mod failure;
pub mod flows;
mod history;
mod inputs;
pub mod letters;
pub mod machine;
pub mod mail;
pub mod meters;
mod payload_cache;
mod queue;
pub mod random;
pub mod registry;
mod spans;
pub mod subscription;
pub mod tail;
pub mod transfer;

pub use config::EngineConfig;

pub use cursor::Cursor;
pub use engine::{Ended, Engine, ShutdownReport, Task};
pub use failure::Failure;
pub use letters::LetterPage;
pub use mail::{OpenedWaitpoint, Signalled, StepPage};
pub use queue::Queue;
pub use registry::{AccessSecret, NewToken};
pub use subscription::{EventFilter, Start, Subscription};
pub use tail::{Output, Place, Tail};
