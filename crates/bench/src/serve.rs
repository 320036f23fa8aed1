//! A process with an engine that clients reach over a loopback socket: the least that a server is.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ff_core::class::Capabilities;
use ff_core::commands::{Complete, Poll, RegisterWorker};
use ff_core::execution::Fence;
use ff_core::{Command, ExecutionId, InstanceId, Kind, LaneName, WorkerName};
use ff_engine::Failure;
use flowfabric::Fabric;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::bed::{Bed, NOOP, engine_of};
use crate::child;
use crate::wire::{self, Answer, Call};

/// How long a claim waits for work before it is answered with none.
const CLAIM_WAIT: Duration = Duration::from_secs(1);
/// Longer than a round, so that the clients need no heartbeat.
const TTL_MS: i64 = 3_600_000;
/// How often an ending that found the engine busy is sent again, and how soon.
const AGAIN: (usize, Duration) = (1_000, Duration::from_millis(5));

/// Serves until the parent has heard enough; says the port first and what the store did last.
pub async fn serve(place: &str) -> anyhow::Result<()> {
    let bed = Bed::on(place).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    child::say(&listener.local_addr()?.port())?;
    let end = child::told();
    tokio::pin!(end);
    loop {
        tokio::select! {
            told = &mut end => {
                told?;
                break;
            }
            accepted = listener.accept() => {
                let fabric = bed.fabric.clone();
                tokio::spawn(talk(accepted?.0, fabric));
            }
        }
    }
    bed.fabric.shutdown(Duration::from_secs(30)).await;
    child::say(&bed.cost()?.context("a store that counts")?)
}

/// Answers one client; each call has a task of its own.
async fn talk(stream: TcpStream, fabric: Fabric) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (reading, mut writing) = stream.into_split();
    let (answers, mut to_send) = mpsc::unbounded_channel::<(u64, Answer)>();
    tokio::spawn(async move {
        let (mut list, mut bytes) = (Vec::new(), Vec::new());
        while to_send.recv_many(&mut list, 256).await > 0 {
            bytes.clear();
            for (number, answer) in list.drain(..) {
                wire::write(&mut bytes, number, &answer)?;
            }
            writing.write_all(&bytes).await?;
        }
        anyhow::Ok(())
    });
    let mut lines = BufReader::new(reading).lines();
    while let Some(line) = lines.next_line().await? {
        let (number, call) = wire::read::<Call>(&line)?;
        let (fabric, answers) = (fabric.clone(), answers.clone());
        tokio::spawn(async move {
            let answer =
                answer(&fabric, call).await.unwrap_or_else(|error| Answer::Failed(error.to_string()));
            let _ = answers.send((number, answer));
        });
    }
    Ok(())
}

async fn answer(fabric: &Fabric, call: Call) -> anyhow::Result<Answer> {
    Ok(match call {
        Call::Submit => Answer::Submitted(submit(fabric).await?),
        Call::Register => Answer::Registered(register(fabric).await?),
        Call::Claim { instance, max } => Answer::Claimed(claim(fabric, instance, max).await?),
        Call::Complete(fences) => {
            complete(fabric, fences).await?;
            Answer::Completed
        }
    })
}

async fn submit(fabric: &Fabric) -> anyhow::Result<ExecutionId> {
    Ok(fabric.submit(NOOP, &()).await?.id())
}

async fn register(fabric: &Fabric) -> anyhow::Result<InstanceId> {
    let engine = engine_of(fabric)?;
    let (now, _) = engine.store().status().await?;
    let instance = engine.new_instance_id(now);
    let register = RegisterWorker {
        instance,
        name: WorkerName::parse("bench")?,
        lanes: vec![LaneName::default()],
        capabilities: Capabilities::default(),
        build: None,
        // It calls any server, so it does not end with one.
        server: None,
        owner: None,
        ttl_ms: TTL_MS,
    };
    engine.execute(register).await?;
    Ok(instance)
}

async fn claim(fabric: &Fabric, instance: InstanceId, max: usize) -> anyhow::Result<Vec<Fence>> {
    let poll = Poll {
        worker: WorkerName::parse("bench")?,
        instance,
        lanes: vec![LaneName::default()],
        kinds: vec![Kind::parse(NOOP)?],
        namespaces: Vec::new(),
        capabilities: Capabilities::default(),
    };
    let tasks = engine_of(fabric)?.poll(Arc::new(poll), max, CLAIM_WAIT).await?;
    Ok(tasks.iter().map(|task| task.execution.fence()).collect())
}

/// Ends all of them, as a worker does: what found the engine busy is sent again.
async fn complete(fabric: &Fabric, fences: Vec<Fence>) -> anyhow::Result<()> {
    let mut left = fences;
    for _ in 0..AGAIN.0 {
        let commands =
            left.iter().map(|fence| Command::from(Complete { fence: *fence, result: None })).collect();
        let answers = engine_of(fabric)?.execute_all(commands).await;
        let mut again = Vec::new();
        for (fence, answer) in left.into_iter().zip(answers) {
            match answer {
                Ok(_) => {}
                Err(Failure::Busy { .. } | Failure::Unavailable(_) | Failure::OutcomeUnknown) => {
                    again.push(fence)
                }
                Err(failure) => anyhow::bail!("an ending was refused: {failure}"),
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        left = again;
        tokio::time::sleep(AGAIN.1).await;
    }
    anyhow::bail!("{} endings found the engine busy for too long", left.len())
}
