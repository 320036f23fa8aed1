//! The steps of the test command, each a process whose output is shown and read.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::contract;
use crate::count::{self, Count};
use crate::servers::Servers;

/// What a step finds in its environment beside our own.
pub(crate) type Variables<'a> = &'a [(&'static str, String)];

/// How long the same programs are run on every store, or which one.
const SECONDS: &str = "FLOWFABRIC_DIFFERENTIAL_SECONDS";
const SEED: &str = "FLOWFABRIC_DIFFERENTIAL_SEED";

/// What a step told.
pub(crate) struct Outcome {
    pub(crate) success: bool,
    output: String,
}

/// Runs a command, shows what it prints, and keeps it.
pub(crate) fn run(program: &str, args: &[&str], variables: Variables<'_>) -> Outcome {
    eprintln!("\n── {program} {}", args.join(" "));
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("error: {program} could not be started: {error}");
            return Outcome { success: false, output: String::new() };
        }
    };
    let errors = child.stderr.take().map(|stderr| std::thread::spawn(move || show(stderr)));
    let mut output = child.stdout.take().map(show).unwrap_or_default();
    output += &errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
    let success = child.wait().is_ok_and(|status| status.success());
    Outcome { success, output }
}

fn show(stream: impl std::io::Read) -> String {
    let mut kept = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        eprintln!("{line}");
        kept += &line;
        kept.push('\n');
    }
    kept
}

fn cargo(args: &[&str]) -> Outcome {
    cargo_with(args, &[])
}

fn cargo_with(args: &[&str], variables: Variables<'_>) -> Outcome {
    run(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), args, variables)
}

/// A step that is one test in itself.
fn one(total: &mut Count, failures: &mut Vec<&'static str>, name: &'static str, outcome: &Outcome) {
    if outcome.success {
        total.passed += 1;
    } else {
        total.failed += 1;
        failures.push(name);
    }
}

/// A step that runs tests and says how many.
fn many(total: &mut Count, failures: &mut Vec<&'static str>, name: &'static str, outcome: &Outcome) {
    let counted = count::of(&outcome.output);
    total.add(counted);
    // A runner that fails without a failed test did not compile; one that ran nothing tested nothing.
    if counted.passed == 0 || (!outcome.success && counted.failed == 0) {
        total.failed += 1;
    }
    if !outcome.success || counted.passed == 0 {
        failures.push(name);
    }
}

pub fn test(sim_seconds: u64) -> ExitCode {
    let started = Instant::now();
    let (mut total, mut failures) = (Count::default(), Vec::new());
    let servers = match Servers::start() {
        Ok(servers) => servers,
        Err(error) => {
            eprintln!("error: {error}");
            println!("0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };

    one(&mut total, &mut failures, "format", &cargo(&["fmt", "--all", "--check"]));
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    one(&mut total, &mut failures, "lints", &cargo(&clippy));

    many(&mut total, &mut failures, "tests", &cargo_with(runner(), servers.variables()));
    many(
        &mut total,
        &mut failures,
        "documentation examples",
        &cargo_with(&["test", "--workspace", "--doc", "--quiet"], servers.variables()),
    );

    // Before the verdict, so that it is the last word.
    drop(servers);

    one(&mut total, &mut failures, "contract", &contracted());
    let seconds = sim_seconds.to_string();
    one(&mut total, &mut failures, "simulator", &simulate(&["--seconds", &seconds]));

    // Last, because what it builds takes the place of what the steps before have built.
    let (test, clippy) = with_spans();
    many(&mut total, &mut failures, "spans", &test);
    one(&mut total, &mut failures, "lints of spans", &clippy);

    eprintln!("\ntook {} s", started.elapsed().as_secs());
    if !failures.is_empty() {
        eprintln!("failed: {}", failures.join(", "));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What runs the tests: nextest, which ends a test that hangs and runs few at a time of those that need much.
fn runner() -> &'static [&'static str] {
    let has_nextest =
        || Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|it| it.status.success());
    if !has_nextest() {
        eprintln!("nextest is missing; it is installed now, which takes minutes");
        if !cargo(&["install", "cargo-nextest", "--locked"]).success || !has_nextest() {
            eprintln!(
                "\nWARNING: nextest cannot be installed, so `cargo test` runs the tests. Nothing ends a test that hangs, \
                 and tests that start many processes run all at once; they may fail for that.\n"
            );
            return &["test", "--workspace", "--lib", "--bins", "--tests"];
        }
    }
    &["nextest", "run", "--workspace"]
}

/// The server must be the one that is there, so it is built first: with its tests, as the other steps have built it.
fn contracted() -> Outcome {
    let built = cargo(&["test", "--no-run", "--quiet", "--workspace", "--test", "serving"]);
    Outcome { success: built.success && contract::check(), output: String::new() }
}

/// What only programs with the feature `otel` do, and their lints. Of the whole workspace, so that only what knows of it
/// is built anew.
fn with_spans() -> (Outcome, Outcome) {
    let features = ["--workspace", "--features", "ff-cli/otel"];
    let test = [&["test"], &features[..], &["--test", "serving", "spans_reach_a_collector"]].concat();
    let clippy = [&["clippy"], &features[..], &["--all-targets", "--quiet", "--", "-D", "warnings"]].concat();
    (cargo(&test), cargo(&clippy))
}

pub fn spans() -> ExitCode {
    let (test, clippy) = with_spans();
    if test.success && clippy.success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub fn contract() -> ExitCode {
    if contracted().success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn simulate(args: &[&str]) -> Outcome {
    let mut all = vec!["run", "--quiet", "--package", "ff-sim", "--bin", "sim", "--"];
    all.extend(args);
    cargo(&all)
}

/// The same random programs on every store. It is a test that takes how long and which seed from its environment.
pub fn differential(args: &[&str]) -> ExitCode {
    let (variable, value) = match args {
        [] => (SECONDS, "10"),
        ["--seconds", value] => (SECONDS, *value),
        ["--seed", value] => (SEED, *value),
        _ => (SEED, ""),
    };
    if value.parse::<u64>().is_err() {
        eprintln!("error: sim --differential {}: allowed are --seconds N or --seed N", args.join(" "));
        return ExitCode::from(2);
    }
    let servers = match Servers::start() {
        Ok(servers) => servers,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut variables = servers.variables().to_vec();
    variables.push((variable, value.to_owned()));
    let test = ["test", "--package", "ff-store-postgres", "--test", "differential", "--", "--nocapture"];
    if cargo_with(&test, &variables).success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub fn sim(args: &[&str]) -> ExitCode {
    if simulate(args).success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub fn demo(args: &[&str]) -> ExitCode {
    let mut all = vec!["run", "--release", "--quiet", "--package", "ff-cli", "--", "demo"];
    all.extend(args);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo).args(all).status();
    if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
