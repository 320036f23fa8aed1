//! Signals, waitpoints, tokens and steps, as callers outside of a handler see them.

mod inbox;
mod keys;
mod sending;

use std::sync::Arc;

use ff_core::commands::Resume;
use ff_core::step::Step;
use ff_core::suspension::Signal;
use ff_core::{Execution, ExecutionId};

pub use inbox::{WaitpointList, WaitpointPage};
pub use keys::KeyInfo;
pub use sending::SignalCall;

use crate::operation::{Asked, Operation, changed};
use crate::{Error, Fabric, Run};

/// How many signals are read at once.
const SIGNALS: usize = 1_000;
/// How many steps are read at once; of large ones fewer come.
const STEPS: usize = 10_000;

impl Fabric {
    /// Ends a suspension without the signals it waits for; the same attempt goes on.
    pub fn resume(&self, execution: ExecutionId) -> Operation<Arc<Execution>> {
        Operation::new(self, changed, move |Asked { actor, cause, .. }| {
            Ok(Resume { execution, actor, cause }.into())
        })
    }
}

impl Run {
    /// The steps that were recorded, in their order.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn steps(&self) -> Result<Vec<Step>, Error> {
        let fabric = self.fabric();
        let mut steps: Vec<Step> = Vec::new();
        let mut next = Some(0);
        while let Some(after) = next {
            let page = fabric.retried(|| fabric.link().steps(self.id(), after, STEPS)).await?;
            steps.extend(page.steps);
            next = page.next;
        }
        Ok(steps)
    }

    /// The signals that were kept, in the order of arrival.
    ///
    /// # Errors
    /// `not_found` if there is no such execution.
    pub async fn signals(&self) -> Result<Vec<Signal>, Error> {
        let fabric = self.fabric();
        let mut signals: Vec<Signal> = Vec::new();
        loop {
            let after = signals.last().map_or(0, |signal| signal.number);
            let more = fabric.retried(|| fabric.link().signals(self.id(), after, SIGNALS)).await?;
            let over = more.len() < SIGNALS;
            signals.extend(more);
            if over {
                return Ok(signals);
            }
        }
    }

    /// Sends a signal to it; see [`Fabric::signal`].
    pub fn signal(&self, name: &str) -> SignalCall {
        self.fabric().signal(self.id(), name)
    }

    /// Ends its suspension; see [`Fabric::resume`].
    pub fn resume(&self) -> Operation<Arc<Execution>> {
        self.fabric().resume(self.id())
    }
}
