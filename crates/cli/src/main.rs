//! The `flowfabric` command.
//!
//! | to read about | open |
//! |---|---|
//! | what the command line accepts, and its environment | `cli.rs` |
//! | flag, environment, file, default: which wins | `settings.rs` |
//! | opening the store and leaving it | `session.rs` |
//! | what goes wrong, and the exit codes | `problem.rs` |
//! | the log and spans | `telemetry.rs` |
//! | tables, times and JSON | `view.rs` |
//! | times, tags and states as people write them | `parse.rs` |
//! | flows in files, as tables, and drawn | `flow_file/`, `flow_view.rs`, `flow_graph.rs` |
//! | running a program for each execution | `program.rs` |
//! | one command | `commands/` |
//! | which command does what the API can, with which options | `operations.rs`, `options.rs` |
//! | the demonstration | `demo/` |

mod cli;
mod commands;
mod demo;
mod file;
mod flow_file;
mod flow_graph;
mod flow_view;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod options;
mod parse;
mod problem;
mod program;
mod session;
mod settings;
mod telemetry;
mod view;

use std::process::ExitCode;

use crate::problem::Problem;

fn main() -> ExitCode {
    let (cli, json) = match cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => problem.report(json),
    }
}

fn run(cli: cli::Cli) -> Result<(), Problem> {
    let settings = settings::Settings::gather(&cli.global)?;
    // Held to the end: what is collected until then is sent.
    let _telemetry = telemetry::start(&settings.log, settings.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Problem::error(format!("cannot start: {error}")))?;
    let result = runtime.block_on(commands::run(cli.command, settings));
    // A question that still reads the standard input must not keep the process.
    runtime.shutdown_background();
    result
}
