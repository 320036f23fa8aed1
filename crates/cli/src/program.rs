//! Running a program for each execution: input on stdin, result from stdout, the exit code decides.
//!
//! The program gets a process group of its own, so that it and everything it starts can be stopped together:
//! when a cancel is asked for, when the lease is lost, and when it leaves something behind.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flowfabric::{Context, Outcome, Payload, TaskFailure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

/// As in `sysexits.h`: the input is wrong, and no attempt will mend that.
const EX_DATAERR: i32 = 65;
/// As in `sysexits.h`: not now.
const EX_TEMPFAIL: i32 = 75;
/// How much of the end of stderr is kept, in bytes and lines.
const STDERR_KEPT: (usize, usize) = (4_096, 10);

/// A held clone says that a process may still be alive.
pub type Alive = mpsc::Sender<()>;

#[derive(Debug)]
pub struct Program {
    /// For `sh -c`.
    pub command: String,
    /// How large a result may be.
    pub output_bytes_max: usize,
    /// How long after SIGTERM it gets SIGKILL.
    pub kill_after: Duration,
    /// How long an exit with 75 puts the rest off.
    pub later: Duration,
    pub alive: Alive,
}

/// What a program left when it was over.
#[derive(Debug)]
struct Over {
    status: ExitStatus,
    output: Output,
    complaint: String,
}

#[derive(Debug, PartialEq)]
enum Output {
    All(Vec<u8>),
    TooLarge,
}

impl Program {
    /// Runs it once, for one attempt.
    pub async fn run(self: Arc<Self>, ctx: Context, input: Payload) -> Result<Outcome<Payload>, TaskFailure> {
        let mut group = self.start(&ctx)?;
        let (pid, asked) = (group.pid, group.asked.clone());
        let work = group.conclude(input.bytes, self.output_bytes_max);
        tokio::pin!(work);
        let over = tokio::select! {
            over = &mut work => over?,
            () = ctx.cancelled() => {
                ask_to_end(pid, &asked);
                tokio::select! {
                    over = &mut work => over?,
                    () = tokio::time::sleep(self.kill_after) => {
                        signal(pid, Signal::KILL);
                        work.await?
                    }
                }
            }
        };
        self.judge(over)
    }

    fn start(&self, ctx: &Context) -> Result<Group, TaskFailure> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.command])
            .env("FLOWFABRIC_EXECUTION", ctx.id().to_string())
            .env("FLOWFABRIC_ATTEMPT", ctx.attempt().to_string())
            .env("FLOWFABRIC_KIND", ctx.kind().as_str())
            .env("FLOWFABRIC_LANE", ctx.lane().as_str())
            .env("FLOWFABRIC_NAMESPACE", ctx.namespace().as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let cannot = |error: &dyn std::fmt::Display| {
            TaskFailure::retryable(format!("the program cannot be started: {error}")).code("exec")
        };
        let child = command.spawn().map_err(|error| cannot(&error))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| cannot(&"it has no process id"))?;
        let (kill_after, alive) = (self.kill_after, self.alive.clone());
        Ok(Group { pid, child: Some(child), asked: Arc::default(), kill_after, alive })
    }

    fn judge(&self, over: Over) -> Result<Outcome<Payload>, TaskFailure> {
        let output = match &over.output {
            Output::TooLarge => {
                let max = self.output_bytes_max;
                let text = format!("the result has more than {max} bytes; allowed are at most {max}");
                return Err(TaskFailure::fatal(text).code("bad_result"));
            }
            Output::All(bytes) => bytes,
        };
        match over.status.code() {
            Some(0) => Ok(Outcome::Done(Payload::json(as_json(output)))),
            Some(EX_TEMPFAIL) => Ok(Outcome::Delay(self.later)),
            Some(EX_DATAERR) => Err(TaskFailure::fatal(said(&over)).code("exit_65")),
            Some(code) => Err(TaskFailure::retryable(said(&over)).code(&format!("exit_{code}"))),
            None => {
                let signal = std::os::unix::process::ExitStatusExt::signal(&over.status).unwrap_or(0);
                Err(TaskFailure::retryable(said(&over)).code(&format!("signal_{signal}")))
            }
        }
    }
}

/// What it complained about, or at least how it ended.
fn said(over: &Over) -> String {
    if over.complaint.is_empty() { over.status.to_string() } else { over.complaint.clone() }
}

/// JSON stays as it is; any other text becomes a JSON string; nothing becomes null.
fn as_json(output: &[u8]) -> Bytes {
    let text = output.trim_ascii();
    if text.is_empty() {
        return Bytes::from_static(b"null");
    }
    if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok() {
        return Bytes::copy_from_slice(text);
    }
    Bytes::from(serde_json::Value::from(String::from_utf8_lossy(text)).to_string())
}

/// A program and all that it has started. Dropped before its end, it is stopped.
struct Group {
    pid: Pid,
    child: Option<Child>,
    asked: Arc<AtomicBool>,
    kill_after: Duration,
    alive: Alive,
}

impl Group {
    async fn conclude(&mut self, input: Bytes, output_max: usize) -> Result<Over, TaskFailure> {
        let pid = self.pid;
        let Some(child) = &mut self.child else { return Err(TaskFailure::retryable("the program is over")) };
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let end = async {
            let status = child.wait().await;
            // What it has left behind holds the pipes open and is no part of the result.
            signal(pid, Signal::KILL);
            status
        };
        let ((), output, complaint, status) =
            tokio::join!(feed(stdin, input), head(stdout, output_max, pid), tail(stderr), end);
        Ok(Over { status: status?, output, complaint })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take().filter(|child| child.id().is_some()) else { return };
        let (pid, kill_after, alive) = (self.pid, self.kill_after, self.alive.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return signal(pid, Signal::KILL) };
        ask_to_end(pid, &self.asked);
        runtime.spawn(async move {
            let _ = tokio::time::timeout(kill_after, child.wait()).await;
            signal(pid, Signal::KILL);
            let _ = child.wait().await;
            drop(alive);
        });
    }
}

/// Asks once: a second SIGTERM would interrupt what the program does because of the first.
fn ask_to_end(pid: Pid, asked: &AtomicBool) {
    if !asked.swap(true, Ordering::Relaxed) {
        signal(pid, Signal::TERM);
    }
}

/// A group that has gone already is what was wanted.
fn signal(pid: Pid, signal: Signal) {
    let _ = kill_process_group(pid, signal);
}

/// A program need not read its input.
async fn feed(stdin: Option<ChildStdin>, input: Bytes) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&input).await;
    }
}

/// Reads up to the limit; a program that writes more is stopped.
async fn head(stdout: Option<ChildStdout>, max: usize, pid: Pid) -> Output {
    let mut bytes = Vec::new();
    if let Some(stdout) = stdout {
        let _ = stdout.take(max as u64 + 1).read_to_end(&mut bytes).await;
    }
    if bytes.len() <= max {
        return Output::All(bytes);
    }
    signal(pid, Signal::KILL);
    Output::TooLarge
}

/// The last lines of what it complained about.
async fn tail(stderr: Option<ChildStderr>) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let mut kept = Vec::new();
    let mut part = [0; 1_024];
    while let Ok(count @ 1..) = stderr.read(&mut part).await {
        kept.extend_from_slice(&part[..count]);
        kept.drain(..kept.len().saturating_sub(STDERR_KEPT.0));
    }
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(STDERR_KEPT.1)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_no_json_becomes_a_json_text() {
        let cases: [(&[u8], &str); 4] =
            [(b" {\"a\":1}\n", "{\"a\":1}"), (b"hello\n", "\"hello\""), (b"\n", "null"), (b"42", "42")];
        for (output, want) in cases {
            assert_eq!(as_json(output), want);
        }
    }
}
