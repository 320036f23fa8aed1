//! Commands that many ask for at once travel together: one leaves at once if few are on their way, and with those that
//! came meanwhile otherwise.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_api::record::Outcome;
use ff_core::Reply;
use ff_engine::Failure;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::http::{Answer, Call, Http};
use super::routes::Batch;
use super::{commanded, problem};

/// How many requests of one kind are on their way at most.
const UNDER_WAY: usize = 4;
/// How much one request carries at most; a larger single command goes alone. Many a proxy takes no more than a MiB unless it
/// is told to.
const ITEMS: usize = 1_000;
const BYTES: usize = 512 << 10;

type Told = Result<Box<RawValue>, Failure>;

/// Where commands of every kind wait for their turn.
#[derive(Clone, Debug)]
pub(super) struct Courier {
    http: Http,
    queues: Arc<[Mutex<Queue>; Batch::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Vec<u8>, oneshot::Sender<Told>)>,
    under_way: usize,
}

/// What became of a batch, each part still to be read by whoever asked for it.
#[derive(Deserialize)]
struct Outcomes {
    outcomes: Vec<Box<RawValue>>,
}

impl Courier {
    pub fn new(http: Http) -> Courier {
        Courier { http, queues: Arc::default() }
    }

    fn queue(&self, batch: Batch) -> MutexGuard<'_, Queue> {
        self.queues[batch as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one document with whatever else goes the same way.
    pub async fn carry(&self, batch: Batch, document: Vec<u8>) -> Result<Reply, Failure> {
        let (answer, told) = oneshot::channel();
        let starts = {
            let mut queue = self.queue(batch);
            queue.waiting.push_back((document, answer));
            let starts = queue.under_way < UNDER_WAY;
            queue.under_way += usize::from(starts);
            starts
        };
        if starts {
            // It has the documents of others, too, so it does not end with whoever started it.
            self.http.spawn(self.clone().run(batch)).let_go();
        }
        read(told.await.unwrap_or(Err(Failure::ShuttingDown)))
    }

    /// Sends many documents, in as many requests as they need, and answers each for itself.
    pub async fn carry_all(&self, batch: Batch, documents: Vec<Vec<u8>>) -> Vec<Result<Reply, Failure>> {
        let mut left: VecDeque<Vec<u8>> = documents.into();
        let mut results = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let count = fitting(left.iter().map(Vec::len));
            let part: Vec<Vec<u8>> = left.drain(..count).collect();
            results.extend(self.send(batch, &part).await.into_iter().map(read));
        }
        results
    }

    /// Sends what waits until nothing does.
    async fn run(self, batch: Batch) {
        loop {
            let (documents, askers): (Vec<_>, Vec<_>) = {
                let mut queue = self.queue(batch);
                let count = fitting(queue.waiting.iter().map(|(document, _)| document.len()));
                if count == 0 {
                    queue.under_way -= 1;
                    return;
                }
                queue.waiting.drain(..count).unzip()
            };
            let told = self.send(batch, &documents).await;
            for (asker, told) in askers.into_iter().zip(told) {
                let _ = asker.send(told);
            }
        }
    }

    async fn send(&self, batch: Batch, documents: &[Vec<u8>]) -> Vec<Told> {
        match self.request(batch, documents).await {
            Ok(told) => told.into_iter().map(Ok).collect(),
            // One of them is why all were refused, such as one that is too large.
            Err(Failure::Refused { .. } | Failure::Rejected(_)) if documents.len() > 1 => {
                let mut told = Vec::with_capacity(documents.len());
                for document in documents {
                    let alone = self.request(batch, std::slice::from_ref(document)).await;
                    told.push(alone.and_then(|mut it| it.pop().ok_or_else(uneven)));
                }
                told
            }
            Err(failure) => vec![Err(failure); documents.len()],
        }
    }

    async fn request(&self, batch: Batch, documents: &[Vec<u8>]) -> Result<Vec<Box<RawValue>>, Failure> {
        let call = Call::send(hyper::Method::POST, batch.path(), body(batch.field(), documents));
        let Answer { status, body } = commanded(self.http.ask(call).await)?;
        if !(200..300).contains(&status) {
            return Err(problem::failure(&Answer { status, body }));
        }
        let Outcomes { outcomes } =
            serde_json::from_slice(&body).map_err(|error| super::unreadable(&error))?;
        if outcomes.len() != documents.len() {
            return Err(uneven());
        }
        Ok(outcomes)
    }
}

fn uneven() -> Failure {
    Failure::Internal("the server answered another number of commands than were sent".to_owned())
}

fn read(told: Told) -> Result<Reply, Failure> {
    match serde_json::from_str(told?.get()) {
        Ok(Outcome::Done(reply)) => Ok(reply),
        Ok(Outcome::Refused(problem)) => Err(problem::of(problem)),
        Err(error) => Err(super::unreadable(&error)),
    }
}

/// How many of the first documents fit into one request; at least one if there is any.
fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        bytes += size;
        bytes <= BYTES
    };
    let mut sizes = sizes.take(ITEMS).peekable();
    let any = usize::from(sizes.peek().is_some());
    sizes.take_while(fits).count().max(any)
}

/// `{"FIELD":[…]}`
fn body(field: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut body =
        Vec::with_capacity(documents.iter().map(|it| it.len() + 1).sum::<usize>() + field.len() + 8);
    body.extend_from_slice(format!("{{\"{field}\":[").as_bytes());
    for (n, document) in documents.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        body.extend_from_slice(document);
    }
    body.extend_from_slice(b"]}");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_what_fits_and_at_least_one() {
        assert_eq!(fitting(std::iter::empty()), 0);
        assert_eq!(fitting([BYTES + 1, 1].into_iter()), 1);
        assert_eq!(fitting([BYTES / 2, BYTES / 2, 1].into_iter()), 2);
        assert_eq!(fitting(std::iter::repeat_n(1, ITEMS + 5)), ITEMS);
    }

    #[test]
    fn documents_become_one_list() {
        let documents = [b"{\"a\":1}".to_vec(), b"2".to_vec()];
        assert_eq!(body("tasks", &documents), b"{\"tasks\":[{\"a\":1},2]}");
    }
}
