//! Sleeping without holding a worker.

use std::time::Duration;

use ff_core::Ms;
use ff_core::commands::{Delay, Drift, RecordSteps};
use ff_core::step::StepKind;
use serde::{Deserialize, Serialize};

use super::journal::Call;
use super::{new_step, read};
use crate::time::ms;
use crate::{Context, TaskFailure};

/// Shorter than this it is not worth giving the lease back.
const SHORT_MS: Ms = 50;

/// What a sleep records.
#[derive(Serialize, Deserialize)]
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
        let now = self.fabric().wall();
        let until = match recorded {
            Some(step) => read::<Until>(step)?.until,
            None => now.saturating_add(ms(time)),
        };
        let left = until - now;
        if left < SHORT_MS {
            self.pause(Duration::from_millis(left.max(0).unsigned_abs())).await;
            return Ok(());
        }
        let fence = self.running().fence();
        let delay = Delay { fence, delay_ms: left };
        let mut commands = Vec::with_capacity(2);
        if recorded.is_none() {
            let bytes = serde_json::to_vec(&Until { until })?;
            let steps = vec![new_step(place, StepKind::Sleep, Duration::ZERO, bytes)];
            commands.push(RecordSteps { fence, steps, drift: Drift::default() }.into());
        }
        commands.push(delay.into());
        Err(self.park(commands).await)
    }
}
