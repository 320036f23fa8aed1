//! Where an example runs, and what it says there.

use std::process::Command;

use flowfabric::Fabric;
use tempfile::TempDir;

pub struct Place {
    address: String,
    _folder: TempDir,
}

impl Place {
    /// A SQLite file that does not exist yet.
    pub fn file() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", folder.path().join("store.db").display());
        Place { address, _folder: folder }
    }

    /// Runs an example here to its end; gives what it said.
    pub fn run(&self, example: &str) -> String {
        said(command(example).arg(&self.address))
    }

    /// What the example has left behind.
    pub async fn look(&self) -> Fabric {
        flowfabric::connect(&self.address).await.unwrap()
    }
}

/// An example with nothing of ours in its environment.
pub fn command(example: &str) -> Command {
    let program = match example {
        "deploy-approval" => env!("CARGO_BIN_EXE_deploy-approval"),
        "external-callback" => env!("CARGO_BIN_EXE_external-callback"),
        "incident-remediation" => env!("CARGO_BIN_EXE_incident-remediation"),
        "retry-and-cancel" => env!("CARGO_BIN_EXE_retry-and-cancel"),
        "media-pipeline" => env!("CARGO_BIN_EXE_media-pipeline"),
        "llm-race" => env!("CARGO_BIN_EXE_llm-race"),
        other => panic!("there is no example {other}"),
    };
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOWFABRIC")) {
        command.env_remove(name);
    }
    command
}

/// What a program that must end well says.
pub fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out
}
