//! The checkers: what must hold of the stored state, of every step between two, and of every answer.

macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use ensure;

pub mod cache;
pub mod execution;
pub mod flow;
pub mod flow_replies;
pub mod history;
pub mod inbox;
pub mod mail;
pub mod mirror;
pub mod registry;
pub mod replies;
pub mod subscriber;
pub mod tables;

/// `Err` says what does not hold.
pub type Check = Result<(), String>;
