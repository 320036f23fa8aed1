//! The load generator: real work through the SDK, measured, with the store's own limit beside it.
//!
//! | to read about | open |
//! |---|---|
//! | what is run | [`Scenario`], one file each under `scenario/` |
//! | where it runs: a fresh store for each round | [`bed`], [`ground`] |
//! | many callers at once | [`load`] |
//! | flows | [`graph`] |
//! | engines in processes of their own, and clients that call any of them | [`child`], [`serve`], [`clients`], [`wire`] |
//! | a server of HTTP in a process of its own, and the least that a caller of it is | [`host`], [`plain`] |
//! | whole-table reads of PostgreSQL | [`scans`] |
//! | what is written down | [`report`] |
//! | the raw limit: the same rows written by a bare client | [`raw`] |

mod bed;
mod child;
mod clients;
mod figures;
mod graph;
mod ground;
mod host;
mod load;
mod plain;
mod raw;
mod recording;
mod report;
mod scans;
mod scenario;
mod serve;
mod wire;

use std::io::Write as _;
use std::path::PathBuf;

pub use ground::Kind;
pub use report::Report;
pub use scenario::Scenario;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to measure; several are run one after the other
    #[arg(long = "scenario", value_name = "NAME", required_unless_present_any = ["list", "measure", "load", "serve", "host"])]
    pub scenarios: Vec<Scenario>,
    /// List the scenarios and what they do
    #[arg(long)]
    pub list: bool,
    /// How many executions a round takes (each scenario has its own default)
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// How long a round of `steady`, `servers` and `servers-mixed` (20), of `held-horizon` (120) and of `idle` (10, at most
    /// 30) takes, in seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// How many rounds; the report has the median and the spread
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: usize,
    /// How many executions run at once in the worker
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub concurrency: usize,
    /// Through a server in a process of its own: callers and workers reach it over HTTP
    #[arg(long)]
    pub http: bool,
    /// The folder for the stores of the benchmark (a temporary one if absent)
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Measures the drain of an existing store; used by `growth` to start from a new process
    #[arg(long, hide = true, value_name = "FILE or URL")]
    pub measure: Option<String>,
    /// Puts load on an existing store; used by `servers`
    #[arg(long, hide = true, value_name = "URL")]
    pub load: Option<String>,
    /// How many callers that load has
    #[arg(long, hide = true, value_name = "N")]
    pub callers: Option<usize>,
    /// Offers an engine on an existing store; used by `servers-mixed`
    #[arg(long, hide = true, value_name = "URL")]
    pub serve: Option<String>,
    /// Serves an existing store over HTTP; used with `--http`
    #[arg(long, hide = true, value_name = "FILE or URL")]
    pub host: Option<String>,
}

/// Which store and how to report.
#[derive(Clone, Debug)]
pub struct Setting {
    pub kind: Kind,
    /// The PostgreSQL server to make databases on; without one a private server is started.
    pub server: Option<String>,
    pub json: bool,
}

/// Runs what was asked for and prints it.
pub async fn main(args: Args, setting: Setting) -> anyhow::Result<()> {
    if args.list {
        for scenario in Scenario::ALL {
            // Whoever reads only the first lines has seen enough.
            let _ = writeln!(std::io::stdout(), "{:<14} {}", scenario.word(), scenario.about());
        }
        return Ok(());
    }
    if let Some(place) = &args.measure {
        return scenario::growth::measure(place, &args).await;
    }
    if let Some(place) = &args.load {
        return scenario::servers::load(place, &args).await;
    }
    if let Some(place) = &args.serve {
        return serve::serve(place).await;
    }
    if let Some(place) = &args.host {
        return host::serve(place).await;
    }
    let mut reports = Vec::new();
    for scenario in &args.scenarios {
        let report = scenario.run(&args, &setting).await?;
        if setting.json {
            println!("{}", serde_json::to_string(&report)?);
        } else {
            report.print();
        }
        reports.push(report);
    }
    let broken = reports.iter().filter(|report| !report.problems.is_empty()).count();
    anyhow::ensure!(broken == 0, "{broken} runs left a store that is not in order; see `problems`");
    Ok(())
}
