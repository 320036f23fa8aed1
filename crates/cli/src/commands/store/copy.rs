//! `flowfabric store copy`

use std::io::IsTerminal as _;

use clap::Args;
use ff_engine::random;
use ff_engine::transfer::{Progress, Stage, TransferError, Transferred, check_source, transfer};
use ff_store::Store;
use flowfabric::Options;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde_json::json;

use crate::problem::Problem;
use crate::session::{self, sqlite_path, without_password};
use crate::settings::Settings;
use crate::view;

/// Copy everything in a store that is not in use, with work that is under way, into a new store of any kind
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric store copy --store sqlite:jobs.db postgres://owner@db.example/jobs
  flowfabric store copy --store postgres://owner@db.example/jobs sqlite:jobs.db
  flowfabric store copy --store postgres://db.example/jobs 'postgres://db.example/more?partitions=64'

Stop every server, worker and program on the store first; it is only read. The new store must be empty. Nobody can
work on it before the copy is complete and has been checked. Executions, flows, leases, tokens and keys stay as they
are, so that workers behind a server go on when a server serves the copy. Places in the event log do not: subscribers
begin anew at a time. Tables of your own in the same file or database stay where they are.")]
pub struct Copy {
    /// The store to copy into: sqlite:PATH, which must not exist, or a database without a store in it
    #[arg(value_name = "URL")]
    to: String,
}

impl Copy {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        for (what, url) in [("store", settings.store.as_str()), ("URL", self.to.as_str())] {
            check_lasting(what, url)?;
        }
        if let Some(path) = sqlite_path(&self.to).filter(|path| path.exists()) {
            let text = format!("URL: there is a file {} already; a copy never overwrites", path.display());
            return Err(Problem::invalid(text).hint("choose another name"));
        }
        let from = session::open_store(settings).await?;
        let copied = self.copy_from(&*from, settings).await;
        from.close().await;
        let copied = copied?;
        let (from, to) = (without_password(&settings.store), without_password(&self.to));
        if settings.json {
            return view::document(&json!({ "from": from, "to": to, "copied": copied }));
        }
        view::line(&summary(&copied))?;
        view::line(&format!("{to} is complete; {from} is as it was"))
    }

    async fn copy_from(&self, from: &dyn Store, settings: &Settings) -> Result<Transferred, Problem> {
        // Before anything is made that would have to be removed.
        check_source(from, random::seed()).await.map_err(|error| self.problem(error))?;
        let to = flowfabric::open_store(&self.to, &Options::new()).await?;
        let copied = self.copy(from, &*to, settings).await;
        to.close().await;
        copied
    }

    async fn copy(
        &self,
        from: &dyn Store,
        to: &dyn Store,
        settings: &Settings,
    ) -> Result<Transferred, Problem> {
        let bar = (std::io::stderr().is_terminal() && !settings.json).then(bar);
        let mut tell = |progress: Progress| {
            if let Some(bar) = &bar {
                show(bar, progress);
            }
        };
        let shown = without_password(&settings.store);
        let copied = transfer(from, to, &shown, random::seed(), &mut tell).await;
        bar.iter().for_each(ProgressBar::finish_and_clear);
        copied.map_err(|error| self.problem(error))
    }

    fn problem(&self, error: TransferError) -> Problem {
        let again = match sqlite_path(&self.to) {
            Some(path) => format!("remove {} and copy again", path.display()),
            None => "run `DROP SCHEMA flowfabric CASCADE` in the new database and copy again".to_owned(),
        };
        let text = error.to_string();
        match error {
            TransferError::Served(_) | TransferError::ServedTarget(_) => {
                Problem::rejected("store_in_use", text)
                    .hint("stop every server, worker and program on it; nothing was copied")
            }
            TransferError::Empty => Problem::rejected("store_empty", text).hint("check --store"),
            TransferError::UnfinishedTarget(_) => Problem::rejected("store_unfinished", text).hint(again),
            TransferError::UnfinishedSource(_) => Problem::rejected("store_unfinished", text)
                .hint("copy that store instead; nothing was copied"),
            TransferError::NotEmpty | TransferError::Same => Problem::rejected("store_not_empty", text)
                .hint("name a store that is new; nothing was copied"),
            TransferError::Changed | TransferError::Interfered => {
                Problem::rejected("store_in_use", text).hint(format!("stop whoever it is; then {again}"))
            }
            TransferError::Damaged(_) => Problem::error(text).hint(format!(
                "run `flowfabric doctor` on the store that was copied; before another try, {again}"
            )),
            TransferError::TooManyNumbers => Problem::error(text).hint("nothing was copied"),
            TransferError::Source(_) | TransferError::Target(_) => Problem::error(text).hint(again),
        }
    }
}

/// What is in memory ends with this process.
fn check_lasting(what: &str, url: &str) -> Result<(), Problem> {
    if sqlite_path(url).is_some() || url.trim().starts_with("postgres") {
        return Ok(());
    }
    let shown = without_password(url);
    Err(Problem::invalid(format!("{what} is {shown:?}; allowed are sqlite:PATH and postgres://…")))
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = "{msg:<11} {wide_bar} {human_pos} of {human_len} {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.stage {
        Stage::Executions => "executions",
        Stage::Events => "events",
        Stage::Checking => "checking",
    });
    bar.set_length(progress.of);
    bar.set_position(progress.done);
}

fn summary(copied: &Transferred) -> String {
    let Transferred { executions, flows, events, posted, dead_letters } = copied;
    let mut text = format!(
        "{} executions, {} flows, {} events",
        HumanCount(*executions),
        HumanCount(*flows),
        HumanCount(*events)
    );
    if posted + dead_letters > 0 {
        text.push_str(&format!(", {posted} posted rows, {dead_letters} dead letters"));
    }
    text
}
