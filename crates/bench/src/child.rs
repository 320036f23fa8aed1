//! Engines as processes of their own: the same binary, told what to do by its environment and by its standard input.
//! The address of the store has a password in it, and everybody on the machine can read a command line.
//!
//! A child says a first line when it is ready and a last one, its figures, at its end. It ends by itself when its
//! standard input closes, so none outlives the process that started it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a child does, by the option of `flowfabric bench` that says so.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Measure,
    Load,
    Serve,
    Host,
}

impl Part {
    /// This program, to play the part on a store.
    pub fn command(self, place: &str) -> anyhow::Result<Command> {
        let option = match self {
            Part::Measure => "FLOWFABRIC_BENCH_MEASURE",
            Part::Load => "FLOWFABRIC_BENCH_LOAD",
            Part::Serve => "FLOWFABRIC_BENCH_SERVE",
            Part::Host => "FLOWFABRIC_BENCH_HOST",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bench").env(option, place);
        Ok(command)
    }
}

#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    said: Option<BufReader<ChildStdout>>,
    /// The first line it said.
    pub ready: String,
}

impl Child {
    /// Starts `flowfabric bench` in this part, on this store, and waits until it is ready.
    pub async fn start(part: Part, place: &str, args: Vec<String>) -> anyhow::Result<Child> {
        let mut command = part.command(place)?;
        blocking(move || {
            let mut process = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let said = process.stdout.take().map(BufReader::new);
            let mut child = Child { process, said, ready: String::new() };
            child.ready = child.hear()?;
            Ok(child)
        })
        .await
    }

    fn hear(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.said.as_mut().context("a child has no output")?.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "a process of the benchmark ended early; see what it wrote above");
        Ok(line.trim().to_owned())
    }

    /// Lets it begin.
    pub fn go(&mut self) -> anyhow::Result<()> {
        let stdin = self.process.stdin.as_mut().context("a child has no input")?;
        Ok(stdin.write_all(b"go\n").and_then(|()| stdin.flush())?)
    }

    /// Asks for its figures so far.
    pub fn ask<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        self.go()?;
        serde_json::from_str(&self.hear()?).context("a child's figures")
    }

    /// Waits for its figures and its end. One that serves until it is told is told.
    pub async fn end<T: DeserializeOwned + Send + 'static>(mut self) -> anyhow::Result<T> {
        blocking(move || {
            drop(self.process.stdin.take());
            let figures = serde_json::from_str(&self.hear()?).context("a child's figures")?;
            let status = self.process.wait()?;
            anyhow::ensure!(status.success(), "a process of the benchmark ended with {status}");
            Ok(figures)
        })
        .await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended in order is not there any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In the child: says a line to the parent.
pub fn say(what: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

/// In the child: the next line of the parent; none when it has gone or wants the end.
pub async fn told() -> anyhow::Result<Option<String>> {
    blocking(|| {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line)?;
        Ok((read > 0).then_some(line))
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_store_is_not_on_the_command_line_of_a_child() {
        for part in [Part::Measure, Part::Load, Part::Serve, Part::Host] {
            let command = part.command("postgres://me:secret@db/jobs").expect("this program");
            assert!(command.get_args().all(|arg| !arg.to_string_lossy().contains("secret")), "{command:?}");
            assert_eq!(command.get_envs().count(), 1);
        }
    }
}
