//! Running a program for each execution: input on stdin, result from stdout, the exit code decides.
//!
//! The program gets a process group of its own, so that it and everything it starts can be stopped together:
//! when a cancel is asked for, when the lease is lost, and when it leaves something behind.

use std::convert::Infallible;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flowfabric::{Context, Outcome, Payload, TaskFailure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

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
    /// Runs it once, for one attempt. A future that is dropped stops the program.
    pub async fn run(self: Arc<Self>, ctx: Context, input: Payload) -> Result<Outcome<Payload>, TaskFailure> {
        let child = self.start(&ctx)?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let (answer, over) = oneshot::channel();
        let program = self.clone();
        // On a task of its own, which sees the program to its end whatever becomes of this future.
        tokio::spawn(async move { answer.send(program.attend(child, input.bytes, stopped).await) });
        tokio::pin!(over);
        let over = tokio::select! {
            over = &mut over => over,
            () = ctx.cancelled() => {
                drop(stop);
                over.await
            }
        };
        self.judge(over.map_err(|_| TaskFailure::retryable("the program was lost").code("exec"))??)
    }

    fn start(&self, ctx: &Context) -> Result<Child, TaskFailure> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{OUTLIVE}{}", self.command)])
            .env("FLOWFABRIC_EXECUTION", ctx.id().to_string())
            .env("FLOWFABRIC_ATTEMPT", ctx.attempt().to_string())
            .env("FLOWFABRIC_KIND", ctx.kind().as_str())
            .env("FLOWFABRIC_LANE", ctx.lane().as_str())
            .env("FLOWFABRIC_NAMESPACE", ctx.namespace().as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command.spawn().map_err(|error| {
            TaskFailure::retryable(format!("the program cannot be started: {error}")).code("exec")
        })
    }

    /// Feeds it, listens to it, and stops it when the other end of `stopped` is gone.
    async fn attend(
        &self,
        mut child: Child,
        input: Bytes,
        stopped: oneshot::Receiver<Infallible>,
    ) -> Result<Over, TaskFailure> {
        let _alive = self.alive.clone();
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| TaskFailure::retryable("the program has no process id").code("exec"))?;
        let over = conclude(&mut child, pid, input, self.output_bytes_max);
        tokio::pin!(over);
        tokio::select! {
            over = &mut over => return over,
            _ = stopped => signal(pid, Signal::TERM),
        }
        tokio::select! {
            over = &mut over => return over,
            () = tokio::time::sleep(self.kill_after) => signal(pid, Signal::KILL),
        }
        over.await
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
            Some(SH_TERMINATED) => Err(TaskFailure::retryable(said(&over)).code("signal_15")),
            Some(code) => Err(TaskFailure::retryable(said(&over)).code(&format!("exit_{code}"))),
            None => {
                let signal = std::os::unix::process::ExitStatusExt::signal(&over.status).unwrap_or(0);
                Err(TaskFailure::retryable(said(&over)).code(&format!("signal_{signal}")))
            }
        }
    }
}

/// The shell gets SIGTERM with the program. It waits until the program has tidied up and ends as that does, instead of
/// ending first and having the rest taken for left behind.
const OUTLIVE: &str = "trap 'exit $?' TERM\n";
/// How a shell says that a program was ended by SIGTERM.
const SH_TERMINATED: i32 = 128 + 15;

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

/// Sees a program to its end.
async fn conclude(child: &mut Child, pid: Pid, input: Bytes, output_max: usize) -> Result<Over, TaskFailure> {
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
