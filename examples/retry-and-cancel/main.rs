//! What becomes of work that fails, and of work that nobody wants any more.

use std::time::Duration;

use anyhow::Result;
use ff_examples::{Stage, reaches, work_while};
use flowfabric::{
    Backoff, Context, Fatal, Jitter, PublicState, RetryAfter, Retryable, Run, TaskFailure, Worker,
};

/// A service that is down, then busy, then well.
async fn fetch(ctx: Context, page: String) -> Result<String, TaskFailure> {
    match ctx.attempt() {
        1 => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        2 => Err(Retryable("the server answers 503").code("http_503")),
        3 => Err(RetryAfter(Duration::from_millis(700), "the server asks for 700 ms").code("http_429")),
        _ => Ok(format!("{page}, at last")),
    }
}

/// Nothing that is tried again makes a number of a word.
async fn parse(_: Context, text: String) -> Result<u64, TaskFailure> {
    text.parse().map_err(|error| Fatal(error).code("no_number"))
}

/// An export that writes page after page and would go on for a minute.
async fn export(ctx: Context, (): ()) -> Result<u32, TaskFailure> {
    for page in 1..600 {
        ctx.progress(u8::try_from(page / 6).unwrap_or(100), "writing").await;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
            () = ctx.cancelled() => {
                println!("  the export is asked to stop, and removes what it has written");
                return Err(Fatal("stopped half-way").into());
            }
        }
    }
    Ok(600)
}

/// An import that is nearly done when it is cancelled, and uses its grace to finish.
async fn import(ctx: Context, rows: u32) -> Result<u32, TaskFailure> {
    ctx.cancelled().await;
    println!("  the import is asked to stop, but one row is left: it finishes");
    Ok(rows)
}

/// Each attempt with how long it came after the one before.
async fn told(name: &str, run: &Run) -> Result<()> {
    let execution = run.wait().await?.execution;
    println!("{name}: {} ({})", execution.public_state(), execution.reason());
    let mut ended_at = None;
    for attempt in run.attempts().await? {
        let after = ended_at.map_or(String::new(), |at| format!(", {} ms later", attempt.started_at - at));
        let end = attempt.end.as_ref();
        let outcome = end.map_or("running", |end| end.outcome.word());
        let error =
            end.and_then(|end| end.error.as_ref()).map_or(String::new(), |it| format!(": {}", it.message));
        println!("  attempt {}{after}: {outcome}{error}", attempt.number);
        ended_at = end.map(|end| end.at);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::open().await?;
    let fabric = &stage.fabric;
    let worker = Worker::new(fabric)
        .name("office")
        .on("fetch", fetch)
        .on("parse", parse)
        .on("export", export)
        .on("import", import);

    let story = async {
        println!("-- failures");
        // 200 ms, then 400 ms; without jitter, so that it can be seen.
        let backoff = Backoff { initial_ms: 200, factor: 2.0, max_ms: 1_000, jitter: Jitter::None };
        let flaky = fabric.submit("fetch", "index.html").attempts(5).backoff(backoff.clone()).await?;
        let hopeless = fabric.submit("fetch", "robots.txt").attempts(2).backoff(backoff).await?;
        let wrong = fabric.submit("parse", "seven").attempts(5).await?;
        told("fetch with 5 attempts", &flaky).await?;
        told("fetch with 2 attempts", &hopeless).await?;
        told("parse with 5 attempts", &wrong).await?;

        println!("-- cancels");
        let grace = Duration::from_secs(10);
        let waits = fabric.submit("export", &()).delay(Duration::from_secs(3600)).await?;
        waits.cancel().actor("ada").cause("not needed").await?;
        told("export that has not started", &waits).await?;

        let runs = fabric.submit("export", &()).attempts(5).await?;
        reaches(&runs, PublicState::Active).await?;
        runs.cancel_within(grace).actor("ada").cause("the wrong table").await?;
        told("export with a grace of 10 s", &runs).await?;

        let done = fabric.submit("import", &7).await?;
        reaches(&done, PublicState::Active).await?;
        done.cancel_within(grace).actor("ada").cause("too late").await?;
        told("import with a grace of 10 s", &done).await?;

        let cut = fabric.submit("export", &()).await?;
        reaches(&cut, PublicState::Active).await?;
        cut.cancel().actor("ada").cause("at once").await?;
        told("export without a grace", &cut).await?;

        println!("-- once more");
        hopeless.replay().actor("ada").cause("the server is well again").await?;
        told("fetch, replayed", &hopeless).await?;
        Ok(())
    };
    work_while(worker, story).await?;
    stage.close().await;
    Ok(())
}
