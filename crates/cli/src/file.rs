//! `flowfabric.toml`: settings of every command, and a table for each command with options of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use flowfabric::Limits;
use serde::Deserialize;
use toml::{Table, Value};

use crate::problem::Problem;

const NAME: &str = "flowfabric.toml";
const HINT: &str = "allowed keys are store, server, token, ca_file, json, log, log_format, patience, the table [limits], \
                    and a table for each command, such as [serve], with the names of its options";

/// What may stand outside of the tables of commands. A key it does not know is an error, because a typing mistake that
/// is ignored is found much later.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    pub store: Option<String>,
    pub server: Option<String>,
    pub token: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub json: Option<bool>,
    pub log: Option<String>,
    pub log_format: Option<String>,
    pub patience: Option<String>,
    pub limits: Option<Limits>,
}

/// The settings of every command; none if there is no file and none was named.
pub fn keys(given: Option<&Path>, command: &Command) -> Result<Keys, Problem> {
    let Some((path, text)) = read(given)? else { return Ok(Keys::default()) };
    toml::from_str(&without_commands(&text, command)).map_err(|error| wrong(&path, &text, &error))
}

/// What the file adds to a command line: options that neither it nor the environment has.
pub fn options(args: &[OsString], command: &Command) -> Result<Vec<OsString>, Problem> {
    // Whatever is wrong with the line itself is told when it is read for good.
    let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(args) else {
        return Ok(Vec::new());
    };
    let (mut innermost, mut names) = (&matches, Vec::new());
    while let Some((name, below)) = innermost.subcommand() {
        names.push(name);
        innermost = below;
    }
    let given = innermost.try_get_one::<PathBuf>("config").ok().flatten();
    let Some((path, text)) = read(given.map(PathBuf::as_path))? else { return Ok(Vec::new()) };
    let mut table: Table = toml::from_str(&text).map_err(|error| wrong(&path, &text, &error))?;
    table.retain(|name, value| value.is_table() && command.find_subcommand(name).is_some());
    check(&path, "", &table, command)?;
    let mut added = Vec::new();
    let (mut table, mut command) = (&table, command);
    for (n, name) in names.iter().enumerate() {
        let (Some(Value::Table(below)), Some(subcommand)) = (table.get(*name), command.find_subcommand(name))
        else {
            break;
        };
        (table, command) = (below, subcommand);
        if n + 1 == names.len() {
            for (key, value) in table {
                if let Some(arg) = option(command, key).filter(|arg| !is_given(innermost, arg)) {
                    added.extend(words(&path, key, value, arg)?);
                }
            }
        }
    }
    Ok(added)
}

fn read(given: Option<&Path>) -> Result<Option<(PathBuf, String)>, Problem> {
    let path = given.map_or_else(|| PathBuf::from(NAME), Path::to_owned);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::usage(format!("config: cannot read {}: {error}", path.display()))),
    }
}

fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> Problem {
    // The error points at the line with several lines of its own.
    let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
    let place = line.map_or_else(String::new, |line| format!(", line {line}"));
    Problem::usage(format!("{}{place}: {}", path.display(), error.message())).hint(HINT)
}

/// The text with the tables of commands blank, so that what is said of the rest has the right line.
fn without_commands(text: &str, command: &Command) -> String {
    let mut is_command = false;
    let line = |line: &str| {
        if let Some(header) = line.trim_start().strip_prefix('[') {
            let name = header.trim_start_matches('[').split(['.', ']']).next().unwrap_or_default().trim();
            is_command = command.find_subcommand(name).is_some();
        }
        if is_command { String::new() } else { line.to_owned() }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Every key of every command's table is an option of it or a command below it.
fn check(path: &Path, place: &str, table: &Table, command: &Command) -> Result<(), Problem> {
    for (key, value) in table {
        let name = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        match (value, command.find_subcommand(key)) {
            (Value::Table(below), Some(subcommand)) => check(path, &name, below, subcommand)?,
            _ if option(command, key).is_some() => {}
            _ => {
                let options = command.get_arguments().filter(|arg| is_option(arg)).filter_map(Arg::get_long);
                let options = options.map(|it| it.replace('-', "_")).collect::<Vec<_>>().join(", ");
                let text = format!("{}: there is no option {name}", path.display());
                return Err(Problem::usage(text).hint(match options.as_str() {
                    "" => format!("{place:?} has no options of its own"),
                    options => format!("allowed in [{place}] are {options}"),
                }));
            }
        }
    }
    Ok(())
}

/// The option of a command that a key names.
fn option<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    let named = |arg: &&Arg| arg.get_long().is_some_and(|long| long.replace('-', "_") == key);
    command.get_arguments().filter(|arg| is_option(arg)).find(named)
}

fn is_option(arg: &Arg) -> bool {
    let is_help = matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpLong | ArgAction::Version);
    !is_help && !arg.is_global_set()
}

fn is_given(matches: &ArgMatches, arg: &Arg) -> bool {
    let source = matches.value_source(arg.get_id().as_str());
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// A key and its value as they would stand on the command line.
fn words(path: &Path, key: &str, value: &Value, arg: &Arg) -> Result<Vec<OsString>, Problem> {
    let long = arg.get_long().unwrap_or_default();
    let wrong = |allowed: &str| {
        let kind = value.type_str();
        Problem::usage(format!("{}: {key} is of the type {kind}; allowed {allowed}", path.display()))
    };
    let word = |value: &Value| match value {
        Value::String(text) => Ok(format!("--{long}={text}").into()),
        Value::Integer(number) => Ok(format!("--{long}={number}").into()),
        Value::Float(number) => Ok(format!("--{long}={number}").into()),
        _ => {
            Err(wrong("are text and numbers, and lists of them for options that may be given several times"))
        }
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => Ok(vec![format!("--{long}").into()]),
        (ArgAction::SetTrue, Value::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err(wrong("are true and false")),
        (ArgAction::Append, Value::Array(values)) => values.iter().map(word).collect(),
        (_, value) => Ok(vec![word(value)?]),
    }
}
