//! What goes wrong: a message, what to do next, and the exit code.

use std::process::ExitCode;

use flowfabric::{Error, Rejection};
use serde_json::json;

use crate::view;

/// Exit codes; the help of the root command explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The reader of our output has gone; nobody is left to hear of it.
    Quiet = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    Rejected = 4,
    Unavailable = 5,
    NotCompleted = 6,
    Timeout = 124,
}

#[derive(Debug)]
pub struct Problem {
    pub exit: Exit,
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    /// It was already told in another way.
    told: bool,
}

impl Problem {
    fn new(exit: Exit, code: &str, message: impl Into<String>) -> Problem {
        Problem { exit, code: code.to_owned(), message: message.into(), hint: None, told: false }
    }

    pub fn error(message: impl Into<String>) -> Problem {
        Problem::new(Exit::Error, "error", message)
    }

    pub fn usage(message: impl Into<String>) -> Problem {
        Problem::new(Exit::Usage, "usage", message)
    }

    /// A value that does not fit; the message names the field and what is allowed.
    pub fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(Exit::Usage, "invalid", message)
    }

    pub fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(Exit::NotFound, "not_found", message)
    }

    /// Not possible in the state that something is in.
    pub fn rejected(code: &str, message: impl Into<String>) -> Problem {
        Problem::new(Exit::Rejected, code, message)
    }

    pub fn timeout(message: impl Into<String>) -> Problem {
        Problem::new(Exit::Timeout, "timeout", message)
    }

    /// Only the exit code is left to be said.
    pub fn told(exit: Exit) -> Problem {
        Problem { told: true, ..Problem::new(exit, "", "") }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// The same with another exit code.
    pub fn with_exit(mut self, exit: Exit) -> Problem {
        self.exit = exit;
        self
    }

    /// The same with the place that it is about in front.
    pub fn at(mut self, place: impl std::fmt::Display) -> Problem {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Says it on stderr.
    pub fn report(self, json: bool) -> ExitCode {
        if !self.told {
            if json {
                eprintln!("{}", json!({ "error": self.document() }));
            } else {
                eprintln!("error: {}", view::readable_times(&self.message));
                if let Some(hint) = &self.hint {
                    eprintln!("hint: {hint}");
                }
            }
        }
        ExitCode::from(self.exit as u8)
    }

    pub fn document(&self) -> serde_json::Value {
        json!({ "code": self.code, "message": self.message, "hint": self.hint })
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let problem = Problem::new(exit_of(&error), error.code(), error.to_string());
        match hint_for(&error) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Invalid(_) | Error::Cursor(_) => Exit::Usage,
        Error::Rejected(Rejection::NotFound { .. } | Rejection::WorkerUnknown { .. }) => Exit::NotFound,
        Error::Rejected(_) => Exit::Rejected,
        Error::NotCompleted(_) | Error::FlowNotCompleted(_) => Exit::NotCompleted,
        Error::Busy { .. } | Error::Unavailable(_) | Error::OutcomeUnknown => Exit::Unavailable,
        _ => Exit::Error,
    }
}

fn hint_for(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Rejected(Rejection::NotFound { what, .. }) if what == "flow" => {
            "`flowfabric flow list` shows what there is; ended flows are removed after their retention"
        }
        Error::Rejected(Rejection::NotFound { what, .. }) if what == "bulk operation" => {
            "`flowfabric bulk list` shows those that run and the last hundred that have ended"
        }
        Error::Rejected(Rejection::NotFound { what, .. }) if what == "webhook" => {
            "`flowfabric webhook list` shows what there is"
        }
        Error::Rejected(Rejection::NotFound { what, .. }) if what == "dead letter" => {
            "`flowfabric inbox list` shows those that are left"
        }
        Error::Rejected(Rejection::NotFound { what, .. }) if what == "edge" => {
            "`flowfabric flow edges FLOW NODE` shows what leads to a node"
        }
        Error::Rejected(Rejection::NotFound { .. }) => {
            "`flowfabric list` shows what there is; ended work is removed after its retention"
        }
        Error::Rejected(Rejection::WorkerUnknown { .. }) => "`flowfabric worker list` shows them",
        Error::Rejected(Rejection::Terminal { .. }) => "`flowfabric replay ID` runs ended work again",
        Error::Rejected(Rejection::NotTerminal { .. }) => "wait for it, or `flowfabric cancel ID` first",
        Error::Rejected(Rejection::NotActive { .. }) => "`flowfabric explain ID` says what it waits for",
        Error::Unavailable(_) | Error::Busy { .. } => {
            "this was not carried out; the same command can be given again"
        }
        Error::Refused { code: "unauthorized", .. } => {
            "give a good token in FLOWFABRIC_TOKEN, or as token in flowfabric.toml"
        }
        Error::Refused { code: "forbidden", .. } => {
            "`flowfabric info` shows what this token may do; FLOWFABRIC_TOKEN takes another one"
        }
        Error::OutcomeUnknown => "`flowfabric get ID` or `flowfabric list` shows whether it happened",
        _ => return None,
    })
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Problem {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Problem::told(Exit::Quiet),
            _ => Problem::error(error.to_string()),
        }
    }
}

impl From<ff_store::StoreError> for Problem {
    fn from(error: ff_store::StoreError) -> Problem {
        Error::from(error).into()
    }
}
