//! How fast a worker works off what does nothing: `cargo run --release -p flowfabric --example drain -- URL`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use flowfabric::{Context, Error, Submission, Worker, connect};
use tokio::sync::Notify;

const COUNT: usize = 20_000;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let concurrency = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(64);
    let fabric = connect(&url).await?;

    let started = Instant::now();
    let work = (0..COUNT).map(|n| Submission::new("nothing", &n)).collect();
    let runs = fabric.submit_many(work).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    report("submitted", started);

    let (left, done) = (Arc::new(AtomicUsize::new(COUNT)), Arc::new(Notify::new()));
    let worker = Worker::new(&fabric).concurrency(concurrency).data((left, done.clone())).on(
        "nothing",
        |ctx: Context, _: usize| async move {
            let (left, done) = ctx.data::<(Arc<AtomicUsize>, Arc<Notify>)>()?;
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                done.notify_one();
            }
            Ok(())
        },
    );
    let started = Instant::now();
    let finished = async {
        done.notified().await;
        for run in runs.iter().rev().take(256) {
            run.wait().await.expect("it has completed");
        }
        report("worked off", started);
    };
    worker.run_until(finished).await?;
    println!("{:?}", fabric.stats().await?);
    Ok(())
}

fn report(what: &str, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what} {COUNT} in {seconds:.2} s: {:.0}/s", COUNT as f64 / seconds);
}
