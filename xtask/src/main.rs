//! `cargo xtask`: the commands of this repository.

mod contract;
mod count;
mod servers;
mod steps;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test                 format, lints, unit and conformance tests, CLI snapshots, documentation examples, contract,
                       the simulator for a minute, spans; ends with 'N passed, M failed'.
                       Starts a private PostgreSQL and PgBouncer, and installs them, nextest and schemathesis if they are
                       missing
  test --quick         the same with five seconds of simulator
  with-postgres -- COMMAND
                       runs a command with a private PostgreSQL and PgBouncer for tests, which end with it
  contract             the server against its OpenAPI document, by schemathesis
  spans                the feature `otel`: its lints, and spans that reach a collector
  sim [ARGS]           the simulator: --seconds N, --seed N, --seeds N, --bug NAME
  sim --differential [--seconds N | --seed N]
                       the same random programs on memory, SQLite and PostgreSQL
  demo                 what `cargo run --release -- demo` shows

Examples
  cargo xtask test
  cargo xtask with-postgres -- cargo nextest run -p ff-scratch
  cargo xtask sim --seconds 60
  cargo xtask sim --bug no-version-check
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => steps::test(60),
        ["test", "--quick"] => steps::test(5),
        ["with-postgres", "--", command @ ..] => servers::with_postgres(command),
        ["contract"] => steps::contract(),
        ["spans"] => steps::spans(),
        ["sim", "--differential", rest @ ..] => steps::differential(rest),
        ["sim", rest @ ..] => steps::sim(rest),
        ["demo", rest @ ..] => steps::demo(rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("error: there is no command {:?}\n\n{HELP}", other.join(" "));
            ExitCode::from(2)
        }
    }
}
