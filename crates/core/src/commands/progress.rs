//! Report: the worker says how far it is.

use super::{Decision, check_text};
use crate::Ms;
use crate::attempt::Progress;
use crate::execution::Fence;
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Progress of an attempt. What is absent stays as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub fence: Fence,
    pub progress: Progress,
}

impl Report {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        range("percent", self.progress.percent.unwrap_or(0).into(), 0, 100)?;
        let max = limits.progress_message_bytes_max;
        check_text("message", self.progress.message.as_deref().unwrap_or_default(), max)?;
        check_text("status", self.progress.status.as_deref().unwrap_or_default(), 128)?;
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        let cancel = current.check_fence(self.fence)?.cancel.clone();
        let mut execution = (**current).clone();
        if let Some(attempt) = &mut execution.live.attempt {
            let progress = attempt.progress.get_or_insert_default();
            let new = self.progress.clone();
            progress.percent = new.percent.or(progress.percent);
            progress.message = new.message.or(progress.message.take());
            progress.status = new.status.or(progress.status.take());
        }
        ws.put_execution(execution, now);
        Ok(Reply::Noted { cancel })
    }
}
