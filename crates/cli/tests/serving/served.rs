//! A server in a process of its own, and plain requests to it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Served {
    pub process: Child,
    pub address: SocketAddr,
    folder: TempDir,
}

/// Where its log goes if somebody wants to read it.
const LOG: &str = "log";

impl Served {
    /// On a fresh file and a free port.
    pub fn start(args: &[&str]) -> Served {
        Served::start_with(args, &[])
    }

    /// One whose environment says more.
    pub fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        Served::spawn(folder, args, variables, Stdio::inherit())
    }

    /// One whose log can be read.
    pub fn start_logged(args: &[&str]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join(LOG)).unwrap();
        Served::spawn(folder, args, &[], log.into())
    }

    fn spawn(folder: TempDir, args: &[&str], variables: &[(&str, &str)], errors: Stdio) -> Served {
        let mut process = Command::new(env!("CARGO_BIN_EXE_flowfabric"))
            .current_dir(folder.path())
            .env_remove("RUST_LOG")
            .envs(variables.iter().copied())
            .args(["--json", "serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["listening"].as_str().unwrap().strip_prefix("http://").unwrap();
        Served { process, address: address.parse().unwrap(), folder }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap()
    }

    pub fn ask_to_end(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Sends a request and leaves the connection open.
    pub fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        answer(&mut self.open(method, path, "", &body))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Value::Null)
    }

    /// The id of a worker that is registered, and may be silent for longer than any test takes.
    pub fn worker(&self) -> String {
        let answer = self.send("POST", "/v1/workers", json!({ "name": "tester", "ttl_ms": "1h" }));
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// A claim that waits as long as the server lets it.
    pub fn poll(&self, worker: &str) -> TcpStream {
        let body = json!({ "name": "tester", "wait_ms": 3_600_000 }).to_string();
        self.open("POST", &format!("/v1/workers/{worker}/claim"), "", &body)
    }

    /// A figure that has no labels.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
        line.parse().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Reads an answer to its end.
pub fn answer(stream: &mut TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, body: body.to_owned() }
}
