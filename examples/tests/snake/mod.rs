//! The programs in Python, as processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A worker that has registered. It is killed when it is dropped.
pub struct Snake {
    /// Its instance, as the server knows it.
    pub id: String,
    child: Child,
    says: BufReader<ChildStdout>,
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python-worker");

fn python(script: &str, address: &str) -> Command {
    let mut command = interpreter(address);
    command.arg(format!("{FOLDER}/{script}"));
    command
}

fn interpreter(address: &str) -> Command {
    let mut command = Command::new("python3");
    // The server is on this machine, whatever proxy is set up for the world outside.
    command.env("FLOWFABRIC_SERVER", address).env("no_proxy", "127.0.0.1");
    command.stdout(Stdio::piped()).env_remove("FLOWFABRIC_TOKEN").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

impl Snake {
    pub fn start(address: &str, args: &[&str]) -> Snake {
        Snake::spawn(python("worker.py", address).args(args))
    }

    /// A worker with handlers of its own.
    pub fn with(address: &str, program: &str, args: &[&str]) -> Snake {
        Snake::spawn(interpreter(address).env("PYTHONPATH", FOLDER).args(["-c", program]).args(args))
    }

    fn spawn(command: &mut Command) -> Snake {
        let mut child = command.spawn().expect("this test needs python3, 3.10 or newer");
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        let id = line.trim().strip_prefix("registered as ").expect(&line).to_owned();
        Snake { id, child, says }
    }

    /// SIGKILL: it says nothing to anybody.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; gives its last line. A heartbeat may have met a task that ended meanwhile and said so before.
    pub fn stop(mut self) -> String {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let mut said = String::new();
        self.says.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said.lines().last().unwrap_or_default().to_owned()
    }
}

impl Drop for Snake {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Submits a line each; what is returned says how they ended, once they have.
pub fn submit(address: &str, kind: &str, lines: &[Value]) -> impl FnOnce() -> String {
    let mut child = python("submit.py", address).arg(kind).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
    drop(stdin);
    move || {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
}
