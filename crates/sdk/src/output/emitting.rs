//! What a handler says while it runs.

use bytes::Bytes;
use ff_core::commands::NewFrame;
use ff_core::name::FrameKind;
use ff_core::stream::{FrameMode, merge};
use serde::Serialize;

use crate::{Context, TaskFailure};

impl Context {
    /// Appends a frame to the output stream of this attempt: bytes of any kind, up to 64 KiB. Frames keep their
    /// order; they are stored in batches soon after, and at the latest before the attempt ends.
    ///
    /// A handler that is called again after a suspension emits again what it emits outside of
    /// [steps](Context::step).
    ///
    /// # Errors
    /// `invalid` if the frame is too large or its kind does not fit; what was wrong with an earlier one that could
    /// not be stored.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// use flowfabric::{Context, Output, Worker};
    /// use serde_json::json;
    ///
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let worker = Worker::new(&fabric).on("write", |ctx: Context, words: Vec<String>| async move {
    ///     for (n, word) in words.iter().enumerate() {
    ///         ctx.emit("word", word.clone()).await?;
    ///         ctx.summary(&json!({ "words": n + 1 })).await?;
    ///     }
    ///     Ok(())
    /// });
    /// let run = fabric.submit("write", &["to", "be"]).await?;
    /// let mut tail = run.tail(None).await?;
    /// let read = async {
    ///     let mut said = Vec::new();
    ///     while let Some(output) = tail.next().await.unwrap() {
    ///         if let Output::Frame(frame) = output && &*frame.kind == "word" {
    ///             said.push(String::from_utf8_lossy(&frame.bytes).into_owned());
    ///         }
    ///     }
    ///     assert_eq!(said, ["to", "be"]);
    ///     assert_eq!(run.summary().await.unwrap().unwrap().document.get(), r#"{"words":2}"#);
    /// };
    /// worker.run_until(read).await?;
    /// # Ok(()) }
    /// ```
    pub async fn emit(&self, kind: &str, bytes: impl Into<Bytes>) -> Result<(), TaskFailure> {
        self.frame(kind, FrameMode::Durable, bytes.into()).await
    }

    /// As [`emit`](Context::emit), of anything that becomes JSON.
    ///
    /// # Errors
    /// As [`emit`](Context::emit); `bad_output` if it cannot become JSON.
    pub async fn emit_json<T: Serialize + ?Sized>(&self, kind: &str, value: &T) -> Result<(), TaskFailure> {
        self.emit(kind, to_json(value)?).await
    }

    /// As [`emit`](Context::emit), for what is of interest only now: it is kept for a short time.
    ///
    /// # Errors
    /// As [`emit`](Context::emit).
    pub async fn emit_briefly(&self, kind: &str, bytes: impl Into<Bytes>) -> Result<(), TaskFailure> {
        self.frame(kind, FrameMode::BestEffort, bytes.into()).await
    }

    /// Patches the summary document of this attempt (JSON merge patch: objects are merged, `null` removes,
    /// everything else replaces). Its version grows with each patch.
    ///
    /// # Errors
    /// `invalid` if the patch is nested too deeply or the document becomes too large.
    pub async fn summary<T: Serialize + ?Sized>(&self, patch: &T) -> Result<(), TaskFailure> {
        let bytes = to_json(patch)?;
        // What is wrong with it is told here, not when it is sent along with others.
        merge(None, &bytes).map_err(|invalid| TaskFailure::fatal(invalid).code("invalid"))?;
        self.frame("summary", FrameMode::Summary, bytes.into()).await
    }

    /// Waits until all output so far is stored.
    ///
    /// # Errors
    /// What could not be stored.
    pub async fn flush(&self) -> Result<(), TaskFailure> {
        self.output().flush().await
    }

    async fn frame(&self, kind: &str, mode: FrameMode, bytes: Bytes) -> Result<(), TaskFailure> {
        let kind = FrameKind::parse(kind).map_err(|invalid| TaskFailure::fatal(invalid).code("invalid"))?;
        let (size, max) = (bytes.len(), self.fabric().limits().frame_bytes_max);
        if size > max {
            let problem = format!("frame has {size} bytes; allowed are at most {max}");
            return Err(TaskFailure::fatal(problem).code("invalid"));
        }
        self.output().push(NewFrame { kind, mode, bytes }).await
    }
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, TaskFailure> {
    serde_json::to_vec(value)
        .map_err(|error| TaskFailure::fatal(format!("output cannot become JSON: {error}")).code("bad_output"))
}
