//! What clients and workers ask of servers, and what becomes of each question.

use std::sync::Arc;

use ff_core::commands::Poll;
use ff_core::{Command, PartitionId};

pub type CallId = usize;

// Nearly every question is a command, so a box would only add an allocation.
#[expect(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum What {
    Command { command: Command, partition: PartitionId },
    Poll { poll: Arc<Poll>, max: usize },
}

impl What {
    pub fn name(&self) -> &'static str {
        match self {
            What::Command { command, .. } => command.name(),
            What::Poll { .. } => "Poll",
        }
    }
}

/// Who hears the answer. A worker that was restarted is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Client,
    Worker { index: usize, life: u32 },
}

#[derive(Debug)]
pub struct Call {
    pub owner: Owner,
    pub what: What,
    pub tries: u32,
    /// Answered, or given up.
    pub over: bool,
}
