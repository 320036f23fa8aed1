//! `flowfabric signal`

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args};
use flowfabric::{Digest, Effect, ExecutionId, Fabric, SignalCall, WaitpointId};
use serde_json::json;

use super::payload::{Bounds, check_json};
use crate::problem::{Exit, Problem};
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::view;

/// Send a signal to an execution or to a waitpoint
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("to").required(true).args(["target", "token"])))]
#[command(after_help = "Examples:
  flowfabric signal 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --name paid --payload '{\"cents\":500}'
  flowfabric signal 0197f3a2-6f3e-7c41-9b1d-0242ac120002-1 --payload true --source ada
  FLOWFABRIC_SIGNAL_TOKEN=v1.1.… flowfabric signal --payload true --source ada
  make-report | flowfabric signal 0197f3a2-6f3e-7c41-9b1d-0242ac120002 --name report \\
    --payload-file - --content-type text/csv

A signal that is not taken, for example because its source is no approver, ends with exit code 4.")]
pub struct Signal {
    /// An execution, together with --name; or a waitpoint as `flowfabric waitpoint list` shows it
    #[arg(value_name = "EXECUTION|WAITPOINT")]
    target: Option<Target>,
    /// The token of a waitpoint. The environment keeps it out of the list of processes
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// What it is called; a signal to a waitpoint has its name otherwise
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What it carries, as JSON [default: null]
    #[arg(long, value_name = "JSON", conflicts_with = "payload_file", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Read what it carries from a file; - is the standard input
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// What it carries, if that is not JSON
    #[arg(long, value_name = "TYPE", default_value = ff_core::payload::JSON)]
    content_type: String,
    /// Who sends it
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// What it belongs to in the sender's books
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
    /// The same key again within a day changes nothing
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// SHA-256 of the action that the sender has seen, in hexadecimal
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    action: Option<Digest>,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Execution(ExecutionId),
    Waitpoint(WaitpointId),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let execution = text.parse().map(Target::Execution).ok();
        let found = execution.or_else(|| text.parse().map(Target::Waitpoint).ok());
        found.ok_or_else(|| {
            "it is neither the id of an execution nor that of a waitpoint (ID-NUMBER)".to_owned()
        })
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::try_from(text.to_owned()).map_err(|invalid| invalid.to_string())
}

impl Signal {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        let payload = self.payload(settings.limits.signal_bytes_max)?;
        session::with(settings, Open::Existing, Patience::Short, async |fabric| {
            let sent = self.call(&fabric, payload)?.await?;
            let why = match sent.effect {
                Effect::Ignored(why) => Some(why.word()),
                _ => None,
            };
            if settings.json {
                view::document(&json!({
                    "execution": sent.execution,
                    "effect": sent.effect.word(),
                    "why": why,
                    "number": sent.number,
                }))?;
            } else {
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                view::line(&format!("{}  {}{why}", sent.execution, sent.effect.word()))?;
            }
            match why {
                Some(_) => Err(Problem::told(Exit::Rejected)),
                None => Ok(()),
            }
        })
        .await
    }

    fn payload(&self, max: usize) -> Result<Vec<u8>, Problem> {
        let bytes = match (&self.payload, &self.payload_file) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (_, Some(path)) => Bounds { field: "payload", max }.file(path)?,
            _ => b"null".to_vec(),
        };
        check_json("payload", &self.content_type, &bytes)?;
        Ok(bytes)
    }

    fn call(&self, fabric: &Fabric, payload: Vec<u8>) -> Result<SignalCall, Problem> {
        let mut call = match (&self.token, self.target) {
            (Some(token), _) => fabric.signal_with_token(token.trim()),
            (None, Some(Target::Waitpoint(id))) => fabric.signal_waitpoint(id),
            (None, Some(Target::Execution(id))) => match &self.name {
                Some(name) => fabric.signal(id, name),
                None => return Err(Problem::usage("--name is missing; a signal to an execution needs one")),
            },
            (None, None) => return Err(Problem::usage("name an execution, a waitpoint or a --token")),
        };
        call = call.payload_bytes(&self.content_type, payload);
        let put =
            |call: SignalCall, put: fn(SignalCall, &str) -> SignalCall, text: &Option<String>| match text {
                Some(text) => put(call, text),
                None => call,
            };
        call = put(call, SignalCall::name, &self.name);
        call = put(call, SignalCall::source, &self.source);
        call = put(call, SignalCall::correlation, &self.correlation);
        call = put(call, SignalCall::idempotency_key, &self.key);
        Ok(match self.action {
            Some(digest) => call.digest(digest),
            None => call,
        })
    }
}
