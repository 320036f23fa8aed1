//! Where an example runs, and what it says there.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use ff_engine::{Engine, EngineConfig};
use ff_server::Config;
use ff_store_sqlite::{Options, SqliteStore};
use flowfabric::Fabric;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub struct Place {
    address: String,
    file: String,
    /// A server of this process, which runs beside the test.
    server: Option<Runtime>,
    _folder: TempDir,
}

#[allow(dead_code, reason = "not every test file needs all of it")]
impl Place {
    /// A SQLite file that does not exist yet.
    pub fn file() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("store.db").display());
        Place { address: file.clone(), file, server: None, _folder: folder }
    }

    /// A server on such a file.
    pub fn server() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let file = format!("sqlite:{}", path.display());
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (started, address) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let store = SqliteStore::open(path, Options::default()).unwrap();
            let engine = Engine::start(Arc::new(store), EngineConfig::default()).await.unwrap();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let server = ff_server::start(engine, Config { address, ..Config::default() }).await.unwrap();
            started.send(server.address).unwrap();
            // It ends with its runtime.
            std::future::pending::<()>().await;
        });
        let address = format!("http://{}", address.recv().unwrap());
        Place { address, file, server: Some(runtime), _folder: folder }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file itself, past the server that may be on it.
    pub async fn beside(&self) -> Fabric {
        flowfabric::connect(&self.file).await.unwrap()
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

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(runtime) = self.server.take() {
            runtime.shutdown_background();
        }
    }
}

/// An example with nothing of ours in its environment.
#[allow(dead_code, reason = "not every test file needs all of it")]
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
#[allow(dead_code, reason = "not every test file needs all of it")]
pub fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out
}
