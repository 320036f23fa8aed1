//! Sleeping without holding a worker.

use std::time::Duration;

use ff_core::Ms;
use ff_core::commands::{Delay, When};
use ff_core::step::StepKind;
use serde::Deserialize;

use super::journal::Call;
use super::read;
use crate::time::ms;
use crate::{Context, TaskFailure};

/// Shorter than this it is not worth giving the lease back.
const SHORT_MS: Ms = 50;

/// What a sleep records: when it is over, on the clock of the store.
#[derive(Deserialize)]
struct Until {
    until: Ms,
}

impl Context {
    /// Waits without holding a worker: the lease goes back, and when the time has come the handler is called again
    /// from its start, in the same attempt; the sleep is then over. It lasts across crashes, and spends nothing.
    ///
    /// Code after it runs in that later call. A sleep of less than 50 ms just waits.
    ///
    /// # Errors
    /// The sleep cannot be stored.
    ///
    /// # Example
    /// ```
    /// use flowfabric::{Context, TaskFailure};
    /// use std::time::Duration;
    ///
    /// async fn remind(ctx: Context, text: String) -> Result<(), TaskFailure> {
    ///     ctx.sleep(Duration::from_secs(24 * 3600)).await?;
    ///     ctx.step("send", || async move { println!("{text}"); Ok(()) }).await
    /// }
    /// # let _ = remind;
    /// ```
    pub async fn sleep(&self, time: Duration) -> Result<(), TaskFailure> {
        if ms(time) < SHORT_MS {
            self.pause(time).await;
            return Ok(());
        }
        let Call { place, recorded } = self.journal().call("sleep", StepKind::Sleep)?;
        let fence = self.running().fence();
        let delay = match recorded {
            None => Delay { step: Some(place), ..Delay::new(fence, ms(time)) },
            Some(step) => {
                let until = read::<Until>(step)?.until;
                // No clock is looked at here: this worker's may be wrong. When it was claimed is the store's word.
                if self.execution().lease().is_some_and(|lease| until <= lease.acquired_at) {
                    return Ok(());
                }
                Delay { fence, until: When::At(until), step: None }
            }
        };
        Err(self.park(vec![delay.into()]).await)
    }
}
