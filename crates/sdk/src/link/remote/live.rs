//! A stream of server-sent events that goes on by itself after every interruption.

use std::time::Duration;

use tokio::sync::mpsc;

use super::http::{Answer, Call, Http, NoAnswer, more};
use super::problem;
use super::sse::{Message, Parser};
use crate::fabric::Patience;

/// Events as they happen, each with the stored record.
const LIVE: &str = "text/event-stream, application/vnd.flowfabric.record+json";
/// How many messages are read ahead.
const AHEAD: usize = 64;
/// A server says something at least this often; one that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// The messages of a stream, read on the thread of the connections. Dropping it ends the reading.
#[derive(Debug)]
pub(super) struct Live {
    messages: mpsc::Receiver<Result<Message, ff_engine::Failure>>,
}

impl Live {
    /// Follows a stream from the id of the last message that was seen.
    pub fn follow(http: &Http, call: Call, last: Option<String>) -> Live {
        let (sender, messages) = mpsc::channel(AHEAD);
        let (http_of_task, mut place) = (http.clone(), last);
        let task = async move {
            let mut patience = Patience::of(Duration::MAX);
            loop {
                let call = Call { last_event_id: place.clone(), accept: LIVE, ..call.clone() };
                match read(&http_of_task, call, &sender, &mut place, &mut patience).await {
                    Ended::Unwanted => return,
                    Ended::Interrupted(why) => tracing::debug!(%why, "a stream is interrupted; it goes on"),
                    Ended::Refused(failure) => {
                        let passing = patience.lasts_for(&failure);
                        tracing::warn!(%failure, "a stream is refused");
                        if !passing {
                            let _ = sender.send(Err(failure)).await;
                            return;
                        }
                    }
                }
                tokio::select! {
                    () = sender.closed() => return,
                    () = patience.pause() => {}
                }
            }
        };
        http.spawn(task).let_go();
        Live { messages }
    }

    /// The next message. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<Result<Message, ff_engine::Failure>> {
        self.messages.recv().await
    }
}

enum Ended {
    /// Nobody reads any more.
    Unwanted,
    Interrupted(String),
    Refused(ff_engine::Failure),
}

async fn read(
    http: &Http,
    call: Call,
    sender: &mpsc::Sender<Result<Message, ff_engine::Failure>>,
    place: &mut Option<String>,
    patience: &mut Patience,
) -> Ended {
    let opened = tokio::select! {
        () = sender.closed() => return Ended::Unwanted,
        opened = tokio::time::timeout(SILENCE, http.open(call)) => opened,
    };
    let response = match opened {
        Ok(Ok(response)) => response,
        Ok(Err(NoAnswer::Closed)) => return Ended::Unwanted,
        Ok(Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why))) => return Ended::Interrupted(why),
        Err(_) => return Ended::Interrupted("no answer".to_owned()),
    };
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut parser = Parser::after(place.clone());
    loop {
        let came = tokio::select! {
            () = sender.closed() => return Ended::Unwanted,
            came = tokio::time::timeout(SILENCE, more(&mut body, &mut parser.bytes)) => came,
        };
        match came {
            Ok(Ok(true)) if status == 200 => {}
            Ok(Ok(true)) => continue,
            Ok(Ok(false)) if status != 200 => {
                let answer = Answer { status, body: parser.bytes.freeze() };
                return Ended::Refused(problem::failure(&answer));
            }
            Ok(Ok(false)) => return Ended::Interrupted("the server has ended the stream".to_owned()),
            Ok(Err(error)) => return Ended::Interrupted(error.to_string()),
            Err(_) => return Ended::Interrupted("nothing came for a while".to_owned()),
        }
        patience.calm();
        loop {
            match parser.next() {
                Ok(Some(message)) => {
                    place.clone_from(&message.id);
                    if sender.send(Ok(message)).await.is_err() {
                        return Ended::Unwanted;
                    }
                }
                Ok(None) => break,
                Err(why) => return Ended::Interrupted(why.to_owned()),
            }
        }
    }
}
