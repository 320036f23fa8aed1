//! Waitpoints, signals, steps, streams and frames: as columns on the way in, as rows on the way out.

mod columns;
mod reads;

pub(crate) use columns::MailColumns;
pub(crate) use reads::{frames, orphans, signals, steps, waitpoints};
