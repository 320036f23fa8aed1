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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn what_a_report_leaves_out_stays_and_a_new_attempt_starts_without() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(report(fence, 10));
        let status = Progress { status: Some("packing".into()), ..Progress::default() };
        assert_eq!(bench.ok(Report { fence, progress: status }), Reply::Noted { cancel: None });
        let progress = |bench: &Bench| bench.get(fence.execution).live.attempt.clone().unwrap().progress;
        let now = progress(&bench).unwrap();
        assert_eq!((now.percent, now.status.as_deref()), (Some(10), Some("packing")));
        bench.ok(release(fence));
        bench.claim();
        assert_eq!(progress(&bench), None);
    }

    #[test]
    fn a_report_tells_the_worker_that_a_cancel_was_asked_for() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(cancel(fence.execution, Some(5_000)));
        let Reply::Noted { cancel: Some(cancel) } = bench.ok(report(fence, 10)) else { panic!() };
        assert_eq!(cancel.cut_at, bench.now + 5_000);
    }

    #[test]
    fn a_report_that_is_out_of_range_is_refused_at_the_edge() {
        let fence = Bench::new().active();
        assert!(report(fence, 100).validate(&Limits::default()).is_ok());
        assert!(report(fence, 101).validate(&Limits::default()).is_err());
    }
}
