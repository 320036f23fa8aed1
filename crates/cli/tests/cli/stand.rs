//! A folder in which the binary is run.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use ff_scratch::{Database, run_sql, test_postgres};
use serde_json::Value;
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_flowfabric");

pub struct Stand {
    folder: TempDir,
    /// The database that the settings name; without one, what a newcomer gets.
    database: Option<Database>,
    /// The server that the settings name.
    server: Option<Server>,
}

/// Tests that hold on every store and through a server. Each is a function that takes a stand.
macro_rules! on_every_store {
    ($($name:ident,)+) => {
        mod on_sqlite {
            $(#[test]
            fn $name() {
                super::$name(&crate::stand::Stand::new());
            })+
        }

        mod on_postgres {
            $(#[test]
            fn $name() {
                super::$name(&crate::stand::Stand::on_postgres());
            })+
        }

        mod through_a_server {
            $(#[test]
            fn $name() {
                super::$name(&crate::stand::Stand::through_a_server());
            })+
        }
    };
}
pub(crate) use on_every_store;

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
        Stand { folder: tempfile::tempdir().unwrap(), database: None, server: None }
    }

    /// A folder whose settings name a database that nobody else uses.
    pub fn on_postgres() -> Stand {
        let database = Database::create(&test_postgres().unwrap(), None).unwrap();
        Stand { folder: tempfile::tempdir().unwrap(), database: Some(database), server: None }
    }

    /// A folder whose settings name a server.
    pub fn through_a_server() -> Stand {
        let mut stand = Stand::new();
        // What is not asked of the server is not found.
        stand.server = Some(stand.serve(["--store", "memory:"]));
        stand
    }

    /// A stand of the same kind, with another store.
    pub fn another(&self) -> Stand {
        match (&self.database, &self.server) {
            (Some(_), _) => Stand::on_postgres(),
            (None, Some(_)) => Stand::through_a_server(),
            (None, None) => Stand::new(),
        }
    }

    /// What an application does in the database.
    pub fn sql(&self, statement: &str) -> String {
        run_sql(&self.database.as_ref().unwrap().url(), &[statement]).unwrap()
    }

    /// The address of the store or server that the binary uses here.
    pub fn url(&self) -> String {
        match (&self.database, &self.server) {
            (Some(database), _) => database.url(),
            (None, Some(server)) => server.url.clone(),
            (None, None) => format!("sqlite:{}", self.path("flowfabric.db").display()),
        }
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
        let mut command = self.in_folder(BINARY);
        command.args(args);
        command
    }

    /// A shell script in this folder; `$FF` is the binary.
    pub fn shell(&self, script: &str) -> Said {
        let mut command = self.in_folder("sh");
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

    /// Starts a server on a free port that ends with the test.
    pub fn serve<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Server {
        self.serve_at("127.0.0.1:0", args)
    }

    pub fn serve_at<'a>(&self, address: &'a str, args: impl IntoIterator<Item = &'a str>) -> Server {
        let mut command = self.command(["--json", "serve", "--listen", address].into_iter().chain(args));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut url, mut token) = (None, None);
        while url.is_none() {
            let line = lines.next().expect("the server says where it listens").unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            token = token.or_else(|| said["secret"].as_str().map(str::to_owned));
            url = said["listening"].as_str().map(str::to_owned);
        }
        Server { url: url.unwrap(), token, process: Background { child: Some(child) } }
    }

    /// How many executions the store holds; none if there is no store.
    pub fn stored(&self) -> u64 {
        match self.database.is_some() || self.server.is_some() || self.path("flowfabric.db").exists() {
            true => self.json(["list", "--count"])["count"].as_u64().unwrap(),
            false => 0,
        }
    }

    fn in_folder(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOWFABRIC")) {
            command.env_remove(name);
        }
        if let Some(database) = &self.database {
            command.env("FLOWFABRIC_STORE", database.url());
        }
        if let Some(server) = &self.server {
            command.env("FLOWFABRIC_SERVER", &server.url);
        }
        command.current_dir(self.folder.path()).env("USER", "ada").env("COLUMNS", "100");
        command
    }
}

/// A server that ends with the test at the latest.
pub struct Server {
    pub url: String,
    /// The first token, if it has made one.
    pub token: Option<String>,
    pub process: Background,
}

/// A process that ends with the test at the latest.
pub struct Background {
    child: Option<Child>,
}

impl From<Child> for Background {
    fn from(child: Child) -> Background {
        Background { child: Some(child) }
    }
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
