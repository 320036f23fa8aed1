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
