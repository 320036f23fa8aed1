use ff_core::commands::*;
use ff_core::*;
use ff_engine::*;
use ff_store::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let n: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(20000);
    let kind = std::env::args().nth(2).unwrap_or("sqlite".into());
    let dir = std::path::PathBuf::from("/tmp/ffprobe");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let store: Arc<dyn Store> = if kind == "memory" {
        Arc::new(ff_store::MemoryStore::new(1))
    } else {
        Arc::new(ff_store_sqlite::SqliteStore::open(&dir.join("x.db"), Default::default()).unwrap())
    };
    let engine = Engine::start(store, EngineConfig::default()).await.unwrap();
    let t = Instant::now();
    let mut left = n;
    while left > 0 {
        let k = left.min(1000);
        left -= k;
        let cmds = (0..k)
            .map(|_| {
                let id = engine.new_execution_id(1_763_000_000_000, "default", None);
                Command::from(Create {
                    fresh: true,
                    ..Create::new(id, Kind::parse("noop").unwrap(), Payload::json("{}"))
                })
            })
            .collect();
        for r in engine.execute_all(cmds).await {
            r.unwrap();
        }
    }
    println!("bulk {:.0}/s", n as f64 / t.elapsed().as_secs_f64());
    let instance = engine.new_instance_id(1_763_000_000_000);
    let name = WorkerName::parse("w").unwrap();
    let lanes = vec![LaneName::default()];
    engine
        .execute(RegisterWorker {
            instance,
            name: name.clone(),
            lanes: lanes.clone(),
            capabilities: Default::default(),
            build: None,
            server: None,
            ttl_ms: 60000,
        })
        .await
        .unwrap();
    let poll = Arc::new(Poll {
        worker: name,
        instance,
        lanes,
        kinds: vec![],
        namespaces: vec![],
        capabilities: Default::default(),
    });
    let t = Instant::now();
    let done = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut hs = vec![];
    for _ in 0..4 {
        let (engine, poll, done) = (engine.clone(), poll.clone(), done.clone());
        hs.push(tokio::spawn(async move {
            while done.load(std::sync::atomic::Ordering::Relaxed) < n {
                let tasks = engine.poll(poll.clone(), 256, Duration::from_millis(50)).await.unwrap();
                let k = tasks.len();
                let cmds = tasks
                    .iter()
                    .map(|t| {
                        Complete { fence: t.execution.fence(), result: Some(Payload::json("null")) }.into()
                    })
                    .collect();
                for r in engine.execute_all(cmds).await {
                    r.unwrap();
                }
                done.fetch_add(k, std::sync::atomic::Ordering::Relaxed);
            }
        }));
    }
    for h in hs {
        h.await.unwrap();
    }
    println!("drain {:.0}/s {:?}", n as f64 / t.elapsed().as_secs_f64(), engine.stats().await.unwrap());
    let mut lat = vec![];
    for _ in 0..300 {
        let t = Instant::now();
        let id = engine.new_execution_id(1_763_000_000_000, "default", None);
        engine
            .execute(Create {
                fresh: true,
                ..Create::new(id, Kind::parse("noop").unwrap(), Payload::json("{}"))
            })
            .await
            .unwrap();
        let tasks = engine.poll(poll.clone(), 1, Duration::from_secs(1)).await.unwrap();
        engine.execute(Complete { fence: tasks[0].execution.fence(), result: None }).await.unwrap();
        lat.push(t.elapsed());
    }
    lat.sort();
    println!("latency p50 {:?} p99 {:?}", lat[150], lat[297]);
}
