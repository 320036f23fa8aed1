//! Append frames to the output stream of an attempt.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Decision;
use crate::Ms;
use crate::execution::Fence;
use crate::id::ExecutionId;
use crate::limits::Limits;
use crate::name::FrameKind;
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::stream::{Frame, FrameMode, Stream, Summary, Trim, merge};
use crate::workspace::{Stop, Workspace};

/// A piece of output. A summary frame is a JSON merge patch.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFrame {
    pub kind: FrameKind,
    pub mode: FrameMode,
    pub bytes: Bytes,
}

/// Appends frames in order. What was appended before is left out, so that a call can be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    pub fence: Fence,
    /// The number of the first of these frames, from 1 within the attempt.
    pub first: u64,
    pub frames: Vec<NewFrame>,
}

impl Append {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        range("first", self.first.min(i64::MAX as u64) as i64, 1, i64::MAX / 2)?;
        range("frames", self.frames.len() as i64, 1, limits.frames_max as i64)?;
        for (at, frame) in self.frames.iter().enumerate() {
            let (size, max) = (frame.bytes.len(), limits.frame_bytes_max);
            if size > max {
                let field = format!("frames[{at}]");
                return Err(
                    Invalid::new(field, format!("has {size} bytes; allowed are at most {max}")).into()
                );
            }
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let execution = self.fence.execution;
        let current = ws.require(execution)?.clone();
        let cancel = current.check_fence(self.fence)?.cancel.clone();
        let attempt = self.fence.attempt;
        let known = ws.stream(execution)?.cloned();
        let mut stream = match &known {
            Some(known) if known.attempt == attempt => (**known).clone(),
            // Of the frames of an attempt before it, the times are remembered that say how long they are kept.
            Some(known) => Stream {
                durable_at: known.durable_at,
                best_effort_at: known.best_effort_at,
                trim_at: known.trim_at,
                ..Stream::new(execution, attempt)
            },
            None => Stream::new(execution, attempt),
        };
        if self.first > stream.next {
            return Err(Rejection::FrameGap { first: self.first, expected: stream.next }.into());
        }
        let known_already = (stream.next - self.first) as usize;
        for frame in self.frames.iter().skip(known_already) {
            let number = stream.next;
            stream.next += 1;
            match frame.mode {
                FrameMode::BestEffort => stream.best_effort_at = Some(now),
                FrameMode::Durable => stream.durable_at = Some(now),
                FrameMode::Summary => {
                    stream.durable_at = Some(now);
                    patch(&mut stream, &frame.bytes, ws.limits.summary_bytes_max)?;
                }
            }
            let (kind, mode, bytes) = (frame.kind.clone(), frame.mode, frame.bytes.clone());
            ws.put_frame(Frame { execution, attempt, number, at: now, kind, mode, bytes });
        }
        let kept_from = stream.next.saturating_sub(ws.limits.frames_kept_max).max(1);
        if kept_from > stream.first {
            stream.first = kept_from;
            ws.trim_frames(Trim::Below { execution, attempt, number: kept_from });
        }
        plan_trim(&mut stream, now, &ws.limits);
        let next = stream.next;
        if !current.live.streamed {
            let mut execution = (*current).clone();
            execution.live.streamed = true;
            ws.put_execution(execution, now);
        }
        if known.as_deref() != Some(&stream) {
            ws.put_stream(stream);
        }
        Ok(Reply::Appended { next, cancel })
    }
}

fn patch(stream: &mut Stream, bytes: &[u8], max: usize) -> Result<(), Invalid> {
    let before = stream.summary.as_ref();
    let document = merge(before.map(|it| it.document.get()), bytes)?.to_string();
    let size = document.len();
    if size > max {
        let problem = format!("makes a document of {size} bytes; allowed are at most {max}");
        return Err(Invalid::new("patch", problem));
    }
    let version = before.map_or(0, |it| it.version) + 1;
    let document = RawValue::from_string(document)
        .map_err(|error| Invalid::new("patch", format!("makes no JSON document: {error}")))?;
    stream.summary = Some(Summary { version, document });
    Ok(())
}

/// Sees to it that frames are looked at when the first of them may be too old. The entry is only ever moved earlier.
fn plan_trim(stream: &mut Stream, now: Ms, limits: &Limits) {
    let durable = stream.durable_at.map(|_| now.saturating_add(limits.frame_retention_ms));
    let best_effort = stream.best_effort_at.map(|_| now.saturating_add(limits.best_effort_ms));
    let next = durable.into_iter().chain(best_effort).min();
    stream.trim_at = stream.trim_at.into_iter().chain(next).min();
}

/// Removes frames that are too old, and plans the next look if there are younger ones.
pub(super) fn trim(ws: &mut Workspace, now: Ms, execution: ExecutionId) -> Result<(), Stop> {
    let Some(current) = ws.stream(execution)?.cloned() else { return Ok(()) };
    let mut stream = (*current).clone();
    let limits = ws.limits.clone();
    let ages = [
        (FrameMode::BestEffort, limits.best_effort_ms, stream.best_effort_at),
        (FrameMode::Durable, limits.frame_retention_ms, stream.durable_at),
        (FrameMode::Summary, limits.frame_retention_ms, stream.durable_at),
    ];
    stream.trim_at = None;
    for (mode, keep_ms, newest) in ages {
        let Some(newest) = newest else { continue };
        let before = now.saturating_sub(keep_ms).saturating_add(1);
        ws.trim_frames(Trim::Older { execution, mode, before });
        // Frames that came later wait for one look together, when the newest of them is too old.
        let next = Some(newest.saturating_add(keep_ms)).filter(|at| *at > now);
        stream.trim_at = stream.trim_at.into_iter().chain(next).min();
        match mode {
            FrameMode::BestEffort => stream.best_effort_at = Some(newest).filter(|_| next.is_some()),
            FrameMode::Summary => stream.durable_at = Some(newest).filter(|_| next.is_some()),
            FrameMode::Durable => {}
        }
    }
    ws.put_stream(stream);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn next(reply: Reply) -> u64 {
        match reply {
            Reply::Appended { next, .. } => next,
            other => panic!("{other:?}"),
        }
    }

    fn numbers(bench: &Bench) -> Vec<(u32, u64)> {
        bench.store.frames.keys().map(|(_, attempt, number)| (*attempt, *number)).collect()
    }

    fn summary(fence: Fence, first: u64, patch: &str) -> Append {
        let mut append = append(fence, first, 1);
        append.frames[0].mode = FrameMode::Summary;
        append.frames[0].bytes = patch.to_owned().into_bytes().into();
        append
    }

    #[test]
    fn frames_are_in_order_an_overlap_is_dropped_and_a_gap_refused() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let fence = bench.active();
            assert_eq!(next(bench.ok(append(fence, 1, 2))), 3);
            assert_eq!(next(bench.ok(append(fence, 1, 2))), 3, "sent again");
            assert_eq!(next(bench.ok(append(fence, 2, 3))), 5);
            assert_eq!(bench.refused(append(fence, 6, 1)), Rejection::FrameGap { first: 6, expected: 5 });
            assert_eq!(numbers(&bench), [(1, 1), (1, 2), (1, 3), (1, 4)]);
        }
    }

    #[test]
    fn a_new_attempt_has_a_stream_of_its_own_and_the_old_worker_is_refused() {
        let mut bench = Bench::new();
        let first = bench.active();
        bench.ok(append(first, 1, 2));
        bench.ok(fail(first));
        bench.pass(1_000);
        let second = bench.claim();
        assert_eq!(bench.refused(append(first, 3, 1)).code(), "already_ended");
        assert_eq!(next(bench.ok(append(second, 1, 1))), 2);
        assert_eq!(numbers(&bench), [(1, 1), (1, 2), (2, 1)]);
    }

    #[test]
    fn an_attempt_that_was_suspended_goes_on_where_it_was() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(append(fence, 1, 2));
        bench.ok(suspend(fence));
        bench.ok(signal(fence.execution, "go"));
        let fence = bench.claim();
        assert_eq!(next(bench.ok(append(fence, 3, 1))), 4);
    }

    #[test]
    fn the_newest_frames_are_kept() {
        let limits = Limits { frames_kept_max: 3, ..Limits::default() };
        let mut bench = Bench::of(crate::id::PartitionId(0), 1, limits);
        let fence = bench.active();
        bench.ok(append(fence, 1, 5));
        assert_eq!(numbers(&bench), [(1, 3), (1, 4), (1, 5)]);
        bench.ok(append(fence, 6, 1));
        assert_eq!(numbers(&bench), [(1, 4), (1, 5), (1, 6)]);
    }

    #[test]
    fn best_effort_frames_go_soon_and_others_when_they_are_old() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.policy.lease_ms = 24 * 3_600_000);
        let mut frames = append(fence, 1, 2);
        frames.frames[0].mode = FrameMode::BestEffort;
        bench.ok(frames);
        bench.pass(59_999);
        assert_eq!(numbers(&bench), [(1, 1), (1, 2)]);
        bench.pass(1);
        assert_eq!(numbers(&bench), [(1, 2)]);
        bench.ok(suspend(fence));
        bench.ok(hold(fence.execution));
        bench.pass(7 * 24 * 3_600_000);
        assert_eq!(numbers(&bench), []);
        assert_eq!(bench.store.streams[&fence.execution].trim_at, None);
    }

    #[test]
    fn a_summary_is_a_document_with_a_version() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(summary(fence, 1, r#"{"done":1,"of":3}"#));
        bench.ok(summary(fence, 2, r#"{"done":2,"of":null}"#));
        bench.ok(summary(fence, 2, r#"{"done":2,"of":null}"#));
        let kept = bench.store.streams[&fence.execution].summary.clone().unwrap();
        assert_eq!((kept.version, kept.document.get()), (2, r#"{"done":2}"#));
        let before = bench.store.clone();
        let refused = bench.refused(summary(fence, 3, "{")).to_string();
        assert!(refused.starts_with("patch is not JSON"), "{refused}");
        let deep = format!("{}1{}", r#"{"a":"#.repeat(17), "}".repeat(17));
        assert_eq!(bench.refused(summary(fence, 3, &deep)).to_string(), "patch is nested deeper than 16");
        assert_eq!(bench.store, before, "nothing of it is kept");
    }

    #[test]
    fn what_is_too_large_is_refused_and_the_frame_is_named() {
        let fence = Bench::new().active();
        let limits = Limits { frame_bytes_max: 0, ..Limits::default() };
        let problem = |append: &Append, limits: &Limits| append.validate(limits).unwrap_err().to_string();
        let refused = problem(&append(fence, 1, 2), &limits);
        assert_eq!(refused, "frames[0] has 1 bytes; allowed are at most 0");
        assert!(problem(&append(fence, 0, 2), &Limits::default()).starts_with("first is 0"));
        assert!(problem(&append(fence, 1, 0), &Limits::default()).starts_with("frames is 0"));
        assert!(problem(&append(fence, 1, 1_001), &Limits::default()).starts_with("frames is 1001"));
    }

    #[test]
    fn a_stream_goes_with_its_execution() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let fence = bench.active();
            bench.ok(append(fence, 1, 2));
            bench.ok(complete(fence));
            bench.ok(remove(fence.execution));
            assert!(bench.store.frames.is_empty() && bench.store.streams.is_empty());
            assert!(!bench.store.agenda.keys().any(|key| key.subject.kind() == "frames"));
        }
    }
}
