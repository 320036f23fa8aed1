//! Clients that call any server: each submit, each claim and each batch of endings goes to one drawn at random.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ff_core::ExecutionId;
use ff_core::execution::Fence;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::wire::{self, Answer, Call};

/// How many workers there are, and how many executions each takes at once.
const WORKERS: usize = 8;

#[derive(Debug)]
pub struct Clients {
    lines: Vec<Line>,
    draws: AtomicU64,
    /// The caller of an execution and its ending meet here, whichever comes first.
    meetings: Mutex<HashMap<ExecutionId, Meeting>>,
    /// How long calls took, by what was called.
    pub took: Mutex<BTreeMap<&'static str, Vec<Duration>>>,
}

#[derive(Debug)]
enum Meeting {
    Caller(oneshot::Sender<()>),
    Ended,
}

impl Clients {
    pub async fn connect(ports: &[u16]) -> anyhow::Result<Arc<Clients>> {
        let mut lines = Vec::new();
        for port in ports {
            lines.push(Line::connect(*port).await?);
        }
        Ok(Arc::new(Clients {
            lines,
            draws: AtomicU64::new(0),
            meetings: Mutex::default(),
            took: Mutex::default(),
        }))
    }

    async fn call_any(&self, call: Call) -> anyhow::Result<Answer> {
        let drawn = scatter(self.draws.fetch_add(1, Ordering::Relaxed)) % self.lines.len() as u64;
        let (word, asked) = (call.word(), Instant::now());
        let answer = self.lines[drawn as usize].call(call).await?;
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        took.entry(word).or_default().push(asked.elapsed());
        match answer {
            Answer::Failed(why) => anyhow::bail!("a server said: {why}"),
            answer => Ok(answer),
        }
    }

    /// Submits one execution and returns when a server has confirmed its ending.
    pub async fn submit_and_wait(&self) -> anyhow::Result<()> {
        let Answer::Submitted(id) = self.call_any(Call::Submit).await? else { return odd() };
        let (caller, ended) = oneshot::channel();
        {
            let mut meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Meeting::Ended) = meetings.remove(&id) {
                return Ok(());
            }
            meetings.insert(id, Meeting::Caller(caller));
        }
        Ok(ended.await?)
    }

    fn ended(&self, id: ExecutionId) {
        let mut meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        match meetings.remove(&id) {
            Some(Meeting::Caller(caller)) => drop(caller.send(())),
            _ => drop(meetings.insert(id, Meeting::Ended)),
        }
    }

    /// Workers that run until they are dropped, `concurrency` executions at once between them.
    pub fn work(self: &Arc<Self>, concurrency: usize) -> JoinSet<anyhow::Result<()>> {
        let max = (concurrency / WORKERS).max(1);
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(self.clone().worker(max));
        }
        workers
    }

    /// Claims while its endings are on their way, as long as there is room.
    async fn worker(self: Arc<Self>, concurrency: usize) -> anyhow::Result<()> {
        let Answer::Registered(instance) = self.call_any(Call::Register).await? else { return odd() };
        let (mut endings, mut held) = (JoinSet::new(), 0);
        loop {
            if held < concurrency {
                let call = Call::Claim { instance, max: concurrency - held };
                let Answer::Claimed(fences) = self.call_any(call).await? else { return odd() };
                if !fences.is_empty() {
                    held += fences.len();
                    endings.spawn(self.clone().end(fences));
                }
            } else if let Some(ended) = endings.join_next().await {
                held -= ended??;
            }
            while let Some(ended) = endings.try_join_next() {
                held -= ended??;
            }
        }
    }

    async fn end(self: Arc<Self>, fences: Vec<Fence>) -> anyhow::Result<usize> {
        let Answer::Completed = self.call_any(Call::Complete(fences.clone())).await? else { return odd() };
        fences.iter().for_each(|fence| self.ended(fence.execution));
        Ok(fences.len())
    }
}

fn odd<T>() -> anyhow::Result<T> {
    anyhow::bail!("a server answered another question")
}

/// A connection to one server; calls do not wait for each other.
#[derive(Debug)]
struct Line {
    calls: mpsc::UnboundedSender<(Call, oneshot::Sender<Answer>)>,
}

type Open = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

impl Line {
    async fn connect(port: u16) -> anyhow::Result<Line> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (reading, mut writing) = stream.into_split();
        let (calls, mut to_send) = mpsc::unbounded_channel::<(Call, oneshot::Sender<Answer>)>();
        let open = Open::default();
        let answered = open.clone();
        tokio::spawn(async move {
            let (mut list, mut bytes, mut number) = (Vec::new(), Vec::new(), 0);
            while to_send.recv_many(&mut list, 256).await > 0 {
                bytes.clear();
                for (call, answer) in list.drain(..) {
                    number += 1;
                    open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, answer);
                    wire::write(&mut bytes, number, &call)?;
                }
                writing.write_all(&bytes).await?;
            }
            anyhow::Ok(())
        });
        tokio::spawn(async move {
            let mut lines = BufReader::new(reading).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok((number, answer)) = wire::read(&line) else { break };
                let caller = answered.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                drop(caller.map(|caller| caller.send(answer)));
            }
            // Nobody is left waiting for a server that has gone.
            answered.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        Ok(Line { calls })
    }

    async fn call(&self, call: Call) -> anyhow::Result<Answer> {
        let gone = || anyhow::anyhow!("a server of the benchmark has gone");
        let (answer, answered) = oneshot::channel();
        self.calls.send((call, answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// Evenly spread numbers from consecutive ones.
fn scatter(n: u64) -> u64 {
    let mut z = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_spread_over_all_servers() {
        let mut counts = [0; 4];
        (0..4_000).for_each(|n| counts[(scatter(n) % 4) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[tokio::test]
    async fn a_caller_and_its_ending_meet_whichever_comes_first() {
        let clients = Clients::connect(&[]).await.unwrap();
        let id = ExecutionId::from_parts(1, ff_core::Route(2), 3);
        clients.ended(id);
        assert!(matches!(clients.meetings.lock().unwrap().remove(&id), Some(Meeting::Ended)));
        let (caller, ended) = oneshot::channel();
        clients.meetings.lock().unwrap().insert(id, Meeting::Caller(caller));
        clients.ended(id);
        ended.await.unwrap();
        assert!(clients.meetings.lock().unwrap().is_empty());
    }
}
