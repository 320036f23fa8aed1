//! The server against its own OpenAPI document: schemathesis sends what the document allows and what it forbids, and
//! looks at the answers.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ff_scratch::Error;

use crate::steps::run;

/// Beside the steps, so that a newer version is a change that can be seen.
const REQUIREMENTS: &str = include_str!("../schemathesis/requirements.txt");

/// Requests of any text. None of them must break the server or be answered with something undocumented.
const ANYTHING: &[&str] = &[
    "--phases=fuzzing",
    "--max-examples=12",
    "--generation-codec=utf-8",
    "--generation-allow-x00=true",
    "--exclude-checks=positive_data_acceptance,negative_data_rejection",
];

/// Requests of which the document can tell whether the server must take them.
const EXACTLY: &[&str] = &["--phases=examples,coverage,fuzzing,stateful", "--max-examples=6"];

/// Requests of callers who may do less. What they may not do is refused, so it says nothing whether a request is taken;
/// that nothing breaks and every answer is a documented one holds for them, too.
const LIMITED: &[&str] = &[
    "--phases=fuzzing",
    "--max-examples=4",
    "--checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
    // Some operations refuse all that such a caller asks, which is as it should be.
    "--warnings=off",
];

/// The roles of such callers. Each has a token that is limited to one namespace.
const ROLES: [&str; 3] = ["viewer", "worker", "operator"];

/// In all of them: the same requests every time, and no more than a few minutes.
const ALWAYS: &[&str] = &[
    "--seed=7",
    "--workers=1",
    "--no-shrink",
    "--continue-on-failure",
    "--request-timeout=60",
    "--generation-database=none",
    "--suppress-health-check=all",
];

/// Whether nothing was found; says what.
pub fn check() -> bool {
    match checked() {
        Ok(good) => good,
        Err(error) => {
            eprintln!("error: {error}");
            false
        }
    }
}

fn checked() -> Result<bool, Error> {
    let folder = target()?.join("schemathesis");
    fs::create_dir_all(&folder).map_err(|error| failed("its folder cannot be made", &error))?;
    let program = installed(&folder)?;
    let mut good = true;
    for pass in [ANYTHING, EXACTLY] {
        let server = Server::start(&folder)?;
        good &= called(&program, &server, &server.token, pass);
        good &= server.stop()?;
    }
    let server = Server::start(&folder)?;
    for role in ROLES {
        println!("as {role} of one namespace");
        good &= called(&program, &server, &server.limited(role)?, LIMITED);
    }
    good &= server.stop()?;
    Ok(good)
}

/// Whether a server answers the holder of a token as it should.
fn called(program: &str, server: &Server, token: &str, pass: &[&str]) -> bool {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis");
    let (config, document) = (here.join("schemathesis.toml"), format!("{}/openapi.json", server.url));
    let token = format!("Authorization: Bearer {token}");
    let config = config.to_string_lossy();
    let mut args = vec!["--config-file", &*config, "run", &document, "--header", &token];
    args.extend(ALWAYS.iter().chain(pass));
    let variables = [
        ("SCHEMATHESIS_HOOKS", here.join("hooks.py").to_string_lossy().into_owned()),
        ("PYTHONPATH", here.to_string_lossy().into_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        // What the requests are about is made by somebody who may do everything.
        ("FLOWFABRIC_CONTRACT_SERVER", server.url.clone()),
        ("FLOWFABRIC_CONTRACT_TOKEN", server.token.clone()),
        ("FLOWFABRIC_CONTRACT_TOKEN_ID", server.token_id.clone()),
    ];
    run(program, &args, &variables).success
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(format!("schemathesis: {what}: {error}"))
}

/// The folder of everything that is built.
fn target() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(|error| failed("where is this program?", &error))?;
    let target = program.ancestors().nth(2).map(Path::to_owned);
    target.ok_or_else(|| Error::new(format!("{} is not in a target folder", program.display())))
}

/// The program, in an environment of its own that is kept as long as the versions stay.
fn installed(folder: &Path) -> Result<String, Error> {
    let (venv, mark) = (folder.join("venv"), folder.join("installed"));
    let program = venv.join("bin/schemathesis").to_string_lossy().into_owned();
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == REQUIREMENTS) {
        return Ok(program);
    }
    let (list, venv) = (folder.join("requirements.txt"), venv.to_string_lossy().into_owned());
    fs::write(&list, REQUIREMENTS).map_err(|error| failed("its versions cannot be written", &error))?;
    let pip = format!("{venv}/bin/pip");
    let list = list.to_string_lossy();
    let made = run("python3", &["-m", "venv", "--clear", &venv], &[]).success
        && run(&pip, &["install", "--quiet", "--disable-pip-version-check", "--requirement", &list], &[])
            .success;
    if !made {
        return Err(Error::new(
            "schemathesis cannot be installed; it needs python3, python3-venv and the Python package index"
                .to_owned(),
        ));
    }
    fs::write(&mark, REQUIREMENTS).map_err(|error| failed("it cannot be noted as installed", &error))?;
    Ok(program)
}

/// A server on a fresh file and a free port. It ends with this value at the latest.
struct Server {
    process: Child,
    url: String,
    token: String,
    token_id: String,
}

impl Server {
    fn start(folder: &Path) -> Result<Server, Error> {
        let data = folder.join("data");
        let _ = fs::remove_dir_all(&data);
        fs::create_dir_all(&data).map_err(|error| failed("the folder of its data cannot be made", &error))?;
        let program = target()?.join("debug/flowfabric");
        let mut process = Command::new(&program)
            .args(["--json", "--store", &format!("sqlite:{}", data.join("flowfabric.db").display())])
            // Nobody else is there who could end a wait.
            .args(["serve", "--auth", "--listen", "127.0.0.1:0", "--wait-max", "20ms"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&program.display().to_string(), &error))?;
        let mut lines = process.stdout.take().into_iter().flat_map(|it| BufReader::new(it).lines());
        let mut next = || lines.next().and_then(Result::ok).unwrap_or_default();
        let (made, listening) = (next(), next());
        let found = (text(&made, "id"), text(&made, "secret"), text(&listening, "listening"));
        let (Some(token_id), Some(token), Some(url)) = found else {
            let _ = process.kill();
            return Err(Error::new(
                "the server for schemathesis did not start; its errors stand above".to_owned(),
            ));
        };
        Ok(Server { process, url, token, token_id })
    }

    /// The secret of a new token of a role, good for one namespace. Were it not good, every request would be refused, and
    /// nothing found; so the server is asked whose it is.
    fn limited(&self, role: &str) -> Result<String, Error> {
        let create = ["token", "create", role, "--role", role, "--namespace", "default"];
        let secret = self.told(&self.token, &create)?;
        let info = self.told(&secret, &["--json", "info"])?;
        // It may be written over several lines.
        let info: String = info.split_whitespace().collect();
        match text(&info, "role") {
            Some(told) if told == role => Ok(secret),
            told => Err(Error::new(format!("the new token of the role {role} is one of the role {told:?}"))),
        }
    }

    /// What a command says to the holder of a token.
    fn told(&self, token: &str, args: &[&str]) -> Result<String, Error> {
        let program = target()?.join("debug/flowfabric");
        let output = Command::new(&program)
            .args(["--server", &self.url])
            .args(args)
            .env("FLOWFABRIC_TOKEN", token)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| failed(&program.display().to_string(), &error))?;
        if !output.status.success() {
            return Err(Error::new(format!("flowfabric {} ended with {}", args.join(" "), output.status)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Whether it was there to the end, and ended well.
    fn stop(mut self) -> Result<bool, Error> {
        let told = Command::new("kill").arg(self.process.id().to_string()).status();
        let told = told.map_err(|error| failed("the server cannot be stopped", &error))?;
        let ended = self.process.wait().map_err(|error| failed("the server cannot be waited for", &error))?;
        if !ended.success() {
            eprintln!("error: the server that schemathesis called ended with {ended}");
        }
        Ok(told.success() && ended.success())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The text of a field in a line of JSON, for values that need no escapes.
fn text(line: &str, field: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{field}\":\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_field_is_found() {
        let line = r#"{"listening":"http://127.0.0.1:7400","store":"sqlite:x.db"}"#;
        assert_eq!(text(line, "listening").as_deref(), Some("http://127.0.0.1:7400"));
        assert_eq!(text(line, "secret"), None);
    }

    #[test]
    fn every_version_is_pinned() {
        for line in REQUIREMENTS.lines() {
            assert!(line.contains("=="), "{line}");
        }
        assert!(REQUIREMENTS.contains("schemathesis=="));
    }
}
