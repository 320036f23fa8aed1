//! Output streams.

use ff_core::stream::{Frame, Stream};

use crate::payload::{self, Json};
use crate::time::Time;

answer! {
    /// One piece of output.
    pub struct FrameDoc {
        pub attempt: u32,
        pub number: u64,
        pub at: Time,
        pub kind: String,
        pub mode: String,
        /// The output as text, if it is that.
        pub text: Option<String>,
        /// And otherwise.
        pub base64: Option<String>,
    }
}

impl From<&Frame> for FrameDoc {
    fn from(it: &Frame) -> FrameDoc {
        let text = std::str::from_utf8(&it.bytes).ok().map(str::to_owned);
        FrameDoc {
            attempt: it.attempt,
            number: it.number,
            at: Time(it.at),
            kind: it.kind.to_string(),
            mode: it.mode.word().to_owned(),
            base64: text.is_none().then(|| payload::encode(&it.bytes)),
            text,
        }
    }
}

answer! {
    /// A page of output of one attempt.
    pub struct StreamDoc {
        /// The attempt that appended last; null if none has.
        pub attempt: Option<u32>,
        /// The number that the next frame gets.
        pub next: Option<u64>,
        /// Frames with smaller numbers are gone.
        pub first: Option<u64>,
        pub summary: Option<Json>,
        pub summary_version: Option<u64>,
        /// Whether a newer attempt has begun than the one whose frames these are.
        pub superseded: bool,
        pub frames: Vec<FrameDoc>,
    }
}

impl StreamDoc {
    /// `newest` is the execution's newest attempt.
    pub fn of(stream: Option<&Stream>, frames: &[Frame], newest: u32) -> StreamDoc {
        let attempt = frames.first().map(|it| it.attempt).or(stream.map(|it| it.attempt));
        let summary = stream.and_then(|it| it.summary.as_ref());
        StreamDoc {
            attempt: stream.map(|it| it.attempt),
            next: stream.map(|it| it.next),
            first: stream.map(|it| it.first),
            summary: summary.map(|it| Json(it.document.clone())),
            summary_version: summary.map(|it| it.version),
            superseded: attempt.is_some_and(|it| it < newest),
            frames: frames.iter().map(Into::into).collect(),
        }
    }
}
