//! A folder in which the binary is run.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_flowfabric");

pub struct Stand {
    folder: TempDir,
}

/// What a run of the binary said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).trim_end().to_owned(),
            err: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
        }
    }
}

impl Stand {
    pub fn new() -> Stand {
        Stand { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The binary in this folder, without settings of whoever runs the tests.
    pub fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = in_folder(BINARY, self.folder.path());
        command.args(args);
        command
    }

    /// A shell script in this folder; `$FF` is the binary.
    pub fn shell(&self, script: &str) -> Said {
        let mut command = in_folder("sh", self.folder.path());
        command.args(["-c", script]).env("FF", BINARY);
        command.output().unwrap().into()
    }

    pub fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn ok<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{said:?}");
        said.out
    }

    /// Runs a command that must succeed and print one JSON document.
    #[track_caller]
    pub fn json<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Value {
        let out = self.ok(["--json"].into_iter().chain(args));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Submits work and gives its id.
    #[track_caller]
    pub fn submit<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        self.ok(["submit"].into_iter().chain(args))
    }

    /// Starts a worker that ends with the test.
    pub fn worker<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Background {
        let mut command = self.command(["worker"].into_iter().chain(args));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Background { child: Some(command.spawn().unwrap()) }
    }

    /// How many executions the store holds; none if there is no store.
    pub fn stored(&self) -> u64 {
        match self.path("flowfabric.db").exists() {
            true => self.json(["list", "--count"])["count"].as_u64().unwrap(),
            false => 0,
        }
    }
}

fn in_folder(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOWFABRIC")) {
        command.env_remove(name);
    }
    command.current_dir(folder).env("USER", "ada").env("COLUMNS", "100");
    command
}

/// A process that ends with the test at the latest.
pub struct Background {
    child: Option<Child>,
}

impl Background {
    /// Waits for it to end by itself.
    pub fn wait(mut self) -> Said {
        self.child.take().unwrap().wait_with_output().unwrap().into()
    }

    /// Asks it to end and waits for that.
    pub fn terminate(mut self) -> Said {
        let child = self.child.take().unwrap();
        let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(told.success());
        child.wait_with_output().unwrap().into()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
