//! What the command line accepts.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};

use crate::commands::Command;
use crate::problem::Problem;
use crate::{file, parse};

const AFTER_HELP: &str = "\
Examples:
  flowfabric demo
  flowfabric submit greet --input '{\"name\":\"Ada\"}'
  flowfabric worker --kind greet --exec 'jq -c .name'
  flowfabric list --state failed --since 1h
  flowfabric serve
  flowfabric list --server http://127.0.0.1:7400
  flowfabric bulk cancel --kind charge --dry-run
  flowfabric flow submit trip.yaml --wait
  flowfabric explain 0197f3a2-6f3e-7c41-9b1d-0242ac120002
  flowfabric tail --from beginning --limit 20 --json

Settings: a flag wins over the environment, that over flowfabric.toml in the working folder, that
over the default. Every option has a name in the environment: --store is FLOWFABRIC_STORE, and
--lane of submit is FLOWFABRIC_SUBMIT_LANE. Keys of flowfabric.toml: store, server, token, ca_file,
json, log, log_format, patience, a table [limits], and a table for each command: [serve] with
listen = \"127.0.0.1:7400\".

Exit codes:
  0    done
  1    error: a store that cannot be used, a token that is missing or may not do this, a defect;
       health: it is not well; bulk: some could not be done; bench, demo: it failed
  2    usage: an option, a value or a setting that does not fit; nothing was stored
  3    not found
  4    rejected: not possible in the state it is in, and nothing changed; signal: it was not taken
  5    unavailable or busy: locked, full or out of reach, try again; or nobody knows whether it
       happened, look first
  6    what was waited for ended but did not complete, or Ctrl-C or SIGTERM ended the waiting
  124  what was waited for did not happen in time
Of several things, such as many ids, the first that went wrong decides. Elsewhere Ctrl-C ends the
command by its signal, which shells show as 130.";

/// Durable executions: submit work, run workers, see what happens.
#[derive(Parser, Debug)]
#[command(name = "flowfabric", version, after_help = AFTER_HELP, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Where the work is kept: sqlite:PATH, postgres://… or memory: [default: sqlite:flowfabric.db]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// The store was named on the command line, not in the environment.
    #[arg(skip)]
    pub store_is_named: bool,
    /// So was the server.
    #[arg(skip)]
    pub server_is_named: bool,
    /// The server to use instead of a store, such as http://127.0.0.1:7400; its token is in FLOWFABRIC_TOKEN
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Authorities that the certificate of an https server is checked with beside those of the machine, as a PEM file
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Print JSON: one document, or one line each for streams
    #[arg(long, global = true)]
    pub json: bool,
    /// The settings file [default: flowfabric.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What is logged to stderr: off, error, warn, info, debug or trace, also for parts: warn,ff_server=debug
    /// [default: RUST_LOG, or warn]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
    /// How it is logged: text or json [default: text]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// How long to wait for a store that is locked, full or out of reach [default: 5s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = parse::duration)]
    #[arg(allow_hyphen_values = true)]
    pub patience: Option<Duration>,
}

impl Global {
    /// A command works at one place. A flag wins over the environment here as everywhere, so that a server can be asked
    /// where the environment names the store that it serves.
    fn choose_place(&mut self, store_is_named: bool, server_is_named: bool) -> Result<(), clap::Error> {
        (self.store_is_named, self.server_is_named) = (store_is_named, server_is_named);
        match (store_is_named, server_is_named) {
            (true, false) => self.server = None,
            (false, true) => self.store = None,
            _ if self.store.is_some() && self.server.is_some() => {
                let text = "the argument '--server <URL>' cannot be used with '--store <URL>', on the command line or \
                            as FLOWFABRIC_SERVER and FLOWFABRIC_STORE; give one of them\n";
                return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The command with a name in the environment for every option.
pub fn command() -> clap::Command {
    let own = |arg: clap::Arg| with_environment(arg, "FLOWFABRIC");
    Cli::command().mut_args(own).mut_subcommands(|it| below(it, "FLOWFABRIC"))
}

fn below(command: clap::Command, prefix: &str) -> clap::Command {
    let prefix = format!("{prefix}_{}", command.get_name().to_uppercase().replace('-', "_"));
    command
        .mut_args(|arg| with_environment(arg, &prefix))
        .mut_subcommands(|subcommand| below(subcommand, &prefix))
}

fn with_environment(arg: clap::Arg, prefix: &str) -> clap::Arg {
    let is_help = matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpLong | ArgAction::Version);
    let Some(long) = arg.get_long().filter(|_| !is_help) else { return arg };
    let name = format!("{prefix}_{}", long.to_uppercase().replace('-', "_"));
    // Lives as long as the process, once for each option.
    let name: &'static str = Box::leak(name.into_boxed_str());
    arg.env(name).hide_env(true)
}

/// Reads the command line; whether errors are to be JSON; or the exit code after help or a complaint.
pub fn read() -> Result<(Cli, bool), ExitCode> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let asked = args.iter().any(|arg| arg == OsStr::new("--json"));
    let command = command();
    let added = file::options(&args, &command).map_err(|problem| problem.report(asked))?;
    // What follows is not for this program.
    let end = args.iter().position(|arg| arg == OsStr::new("--")).unwrap_or(args.len());
    args.splice(end..end, added);
    let cli = command.try_get_matches_from(args).and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        let mut innermost = &matches;
        while let Some((_, below)) = innermost.subcommand() {
            innermost = below;
        }
        let is_named = |name| innermost.value_source(name) == Some(ValueSource::CommandLine);
        cli.global.choose_place(is_named("store"), is_named("server"))?;
        Ok(cli)
    });
    match cli {
        Ok(cli) => {
            let json = cli.global.json;
            Ok((cli, json))
        }
        Err(error) if error.use_stderr() && asked => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let message = text.lines().next().unwrap_or_default().to_owned();
            Err(Problem::usage(message).report(true))
        }
        Err(error) => {
            let _ = error.print();
            Err(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// What the files for operators start, and the variables they set.
    #[test]
    fn the_image_and_the_unit_start_what_is_there() {
        let read = |path: &str| {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            std::fs::read_to_string(root.join(path)).unwrap()
        };
        let (image, unit) = (read("deploy/Dockerfile"), read("deploy/flowfabric.service"));
        let after = |text: &str, start: &str| -> String {
            text.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_owned()
        };
        let entry: Vec<String> = serde_json::from_str(&after(&image, "ENTRYPOINT ")).unwrap();
        let arguments: Vec<String> = serde_json::from_str(&after(&image, "CMD ")).unwrap();
        let health: Vec<String> = serde_json::from_str(&after(&image, "    CMD ")).unwrap();
        let started = after(&unit, "ExecStart=/usr/local/bin/");
        for line in [[entry, arguments].concat(), started.split(' ').map(str::to_owned).collect(), health] {
            let matches = command().try_get_matches_from(&line).unwrap_or_else(|error| panic!("{error}"));
            match Cli::from_arg_matches(&matches).unwrap().command {
                Command::Serve(serve) => assert!(serve.check().is_ok(), "{line:?} is refused at its start"),
                other => assert!(matches!(other, Command::Health(_)), "{line:?}"),
            }
        }
        // What the variables say is checked as if it stood on the line: it must be enough for the server to start.
        let variables = image.lines().skip_while(|line| !line.starts_with("ENV "));
        let of_image: Vec<&str> = variables.take_while(|line| line.contains('=')).collect();
        let of_image = of_image.join(" ").replace("ENV ", "").replace('\\', "");
        assert!(of_image.contains("FLOWFABRIC_SERVE_LISTEN="), "the address can be changed: {of_image}");
        for variables in [of_image, after(&unit, "Environment=")] {
            let mut line = vec!["flowfabric".to_owned(), "serve".to_owned()];
            for variable in variables.split_whitespace() {
                let (name, value) = variable.split_once('=').unwrap();
                let serve = command().find_subcommand("serve").unwrap().clone();
                let option = serve.get_arguments().find(|arg| arg.get_env().is_some_and(|it| it == name));
                let option = option.unwrap_or_else(|| panic!("serve has no option for {name}"));
                let takes_value = option.get_action().takes_values();
                assert!(takes_value || value == "true", "{variable}");
                line.push(format!("--{}", option.get_long().unwrap()));
                line.extend(takes_value.then(|| value.to_owned()));
            }
            let matches = command().try_get_matches_from(&line).unwrap_or_else(|error| panic!("{error}"));
            match Cli::from_arg_matches(&matches).unwrap().command {
                Command::Serve(serve) => assert!(serve.check().is_ok(), "{line:?} is refused at its start"),
                other => panic!("{other:?}"),
            }
        }
        let version = after(&read("Cargo.toml"), "rust-version = ");
        assert!(image.contains(&format!("FROM rust:{}-", version.trim_matches('"'))), "{version}");
        assert!(image.contains(&format!("--package {}", env!("CARGO_PKG_NAME"))));
        assert!(image.contains("ARG FEATURES=\n") && image.contains("--features \"$FEATURES\""));
    }

    #[test]
    fn every_option_has_a_name_in_the_environment() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments() {
                let known = arg.get_env().is_some()
                    || arg.get_long().is_none_or(|it| it == "help" || it == "version");
                assert!(known, "{} {}", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }
}
