//! Single questions to a server that nobody has connected to.

use std::time::Duration;

use super::http::{Call, Http, NoAnswer};
use super::{Address, problem, token};
use crate::{Error, Options};

#[derive(Debug)]
pub(crate) struct Asking {
    http: Http,
    answer_within: Duration,
}

impl Asking {
    pub fn new(address: Address, options: &Options) -> Result<Asking, Error> {
        let http = Http::new(address, token(options).as_deref(), options.ca_file.as_deref())?;
        let answer_within = Duration::from_millis(options.engine.command_timeout_ms.unsigned_abs());
        Ok(Asking { http, answer_within })
    }

    /// What is at a path.
    pub async fn text(&self, path: &str) -> Result<String, Error> {
        let mut call = Call::get(path).answered_within(self.answer_within);
        call.accept = "*/*";
        let answer = self.http.ask(call).await.map_err(|none| match none {
            NoAnswer::NotSent(problem) | NoAnswer::Lost(problem) => Error::Unavailable(problem),
            NoAnswer::Closed => Error::ShuttingDown,
        })?;
        match answer.status {
            200..300 => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
            _ => Err(problem::failure(&answer).into()),
        }
    }
}
