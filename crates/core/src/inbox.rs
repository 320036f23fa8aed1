//! The inbox: submissions that an application has written into the store inside its own transaction.
//!
//! A posted row is raw text. Nobody has checked it, and nobody waits for an answer; what is wrong with it is
//! found here, by the rules of every other submission, and is kept with the row as a dead letter.

mod options;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::class::Capabilities;
use crate::commands::Create;
use crate::id::{ExecutionId, PartitionId, Route};
use crate::limits::Limits;
use crate::name::{Kind, LaneName, Namespace};
use crate::payload::Payload;
use crate::rejection::{Invalid, Rejection};
use crate::tags::Tags;
use options::Options;

/// How much of a text that nobody has checked is shown.
const SHOWN_CHARS: usize = 128;
const REASON_CHARS_MAX: usize = 1_000;

/// A row of the inbox, as the application wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Posted {
    /// Given by the store; unique within it. Smaller numbers are taken first.
    pub number: u64,
    /// The id the execution gets. Without one it is made when the row is taken.
    pub id: Option<ExecutionId>,
    /// Delays and deadlines given as lengths count from here.
    pub posted_at: Ms,
    pub kind: String,
    pub input: Payload,
    pub namespace: Option<String>,
    pub lane: Option<String>,
    /// The idempotency key.
    pub key: Option<String>,
    /// Everything else about the submission, as the text of a JSON object.
    pub options: Option<String>,
}

/// What becomes of a posted row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It has become an execution, or had become one before, and leaves the inbox.
    Taken,
    /// It cannot become one. The row moves from the inbox to the dead letters.
    Dead { reason: String },
    /// It moves from the dead letters back to the inbox, under its number.
    Reposted,
    /// It leaves the dead letters for good.
    Dropped,
}

/// What a decision about a dead letter looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterHead {
    pub id: Option<ExecutionId>,
    pub kind: Arc<str>,
}

/// A posted row that could not become an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub posted: Posted,
    pub reason: String,
    /// When it was given up.
    pub at: Ms,
}

impl Posted {
    /// The partition it waits in: that of its id, or the first one.
    pub fn partition(&self, partitions: u16) -> PartitionId {
        self.id.map_or(Route(0), ExecutionId::route).partition(partitions)
    }

    /// The route that its execution has or gets.
    pub fn route(&self) -> Route {
        match (self.id, &self.key) {
            (Some(id), _) => id.route(),
            (None, Some(key)) => {
                let namespace = self.namespace.as_deref();
                namespace
                    .map_or_else(|| Route::of_key(&Namespace::default(), key), |it| Route::of_key(it, key))
            }
            (None, None) => Route(0),
        }
    }

    /// The row as another store can keep it: with an id, made of `seed` if it has none, and without a character that some
    /// stores have no room for. In its place stands one that is refused everywhere, so that the row has the same fate.
    pub fn arriving(self, seed: u64) -> Posted {
        let id = self.id.unwrap_or_else(|| ExecutionId::from_parts(self.posted_at, self.route(), seed));
        let fits = |text: String| text.replace('\0', "\u{1}");
        let content_type = match self.input.content_type.contains('\0') {
            true => fits(self.input.content_type.to_string()).into(),
            false => self.input.content_type,
        };
        Posted {
            id: Some(id),
            kind: fits(self.kind),
            namespace: self.namespace.map(fits),
            lane: self.lane.map(fits),
            key: self.key.map(fits),
            options: self.options.map(fits),
            input: Payload { content_type, bytes: self.input.bytes },
            ..self
        }
    }

    /// Roughly how many bytes it carries.
    pub fn weight(&self) -> usize {
        512 + self.input.len() + self.options.as_ref().map_or(0, String::len)
    }

    /// What is told of it once it is a dead letter.
    pub fn head(&self) -> LetterHead {
        LetterHead { id: self.id, kind: self.shown_kind().into() }
    }

    /// The kind, short enough to be told.
    pub fn shown_kind(&self) -> String {
        shown(&self.kind, SHOWN_CHARS)
    }

    /// The submission it stands for; `seed` makes the id if it has none.
    ///
    /// # Errors
    /// Names the first field that does not fit and what is allowed.
    pub fn submission(&self, limits: &Limits, seed: u64) -> Result<Create, Invalid> {
        let namespace = self.namespace.as_deref().map_or(Ok(Namespace::default()), Namespace::parse)?;
        let lane = self.lane.as_deref().map_or(Ok(LaneName::default()), LaneName::parse)?;
        let kind = Kind::parse(&self.kind)?;
        let options = Options::parse(self.options.as_deref().unwrap_or("{}"))?;
        let tags = options.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Ok(Create {
            id: self.id.unwrap_or_else(|| ExecutionId::from_parts(self.posted_at, self.route(), seed)),
            fresh: self.id.is_none(),
            namespace,
            kind,
            lane,
            priority: options.priority,
            start: options.start,
            deadline: options.deadline,
            capabilities: Capabilities::new(options.capabilities),
            tags: Tags::default().edited(tags, [], limits)?,
            idempotency_key: self.key.as_deref().map(Into::into),
            policy: options.policy,
            input: self.input.clone(),
        })
    }
}

impl Fate {
    /// Dead because of what a submission that somebody waits for would hear.
    pub fn rejected(rejection: &Rejection) -> Fate {
        Fate::dead(&format!("{}: {rejection}", rejection.code()))
    }

    pub fn dead(reason: &str) -> Fate {
        Fate::Dead { reason: shown(reason, REASON_CHARS_MAX) }
    }
}

/// Text of unknown origin in a form that every store can keep: of bounded length and without U+0000.
fn shown(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::When;

    fn posted() -> Posted {
        Posted {
            number: 1,
            id: None,
            posted_at: 1_000,
            kind: "charge".into(),
            input: Payload::json("{}"),
            namespace: None,
            lane: None,
            key: None,
            options: None,
        }
    }

    #[test]
    fn a_row_with_nothing_but_its_kind_is_a_submission_with_defaults() {
        let create = posted().submission(&Limits::default(), 7).unwrap();
        let id = ExecutionId::from_parts(1_000, Route(0), 7);
        let plain = Create::new(id, Kind::parse("charge").unwrap(), Payload::json("{}"));
        assert_eq!(create, Create { fresh: true, ..plain });
    }

    #[test]
    fn everything_a_submission_can_say_can_be_posted() {
        let options = r#"{"priority":-7,"delay":"5m","deadline_at":99,"tags":{"team.name":"red"},
            "capabilities":["gpu","eu"],"policy":{"max_attempts":9,"backoff":{"factor":1.5}}}"#;
        let row = Posted {
            namespace: Some("acme".into()),
            lane: Some("EU billing".into()),
            key: Some("order 7".into()),
            options: Some(options.into()),
            ..posted()
        };
        let create = row.submission(&Limits::default(), 7).unwrap();
        assert_eq!(create.id.route(), Route::of_key("acme", "order 7"));
        assert_eq!((create.priority, create.start), (-7, Some(When::In(300_000))));
        assert_eq!(create.deadline, Some(When::At(99)));
        assert_eq!((&*create.namespace, &*create.lane), ("acme", "EU billing"));
        assert_eq!(create.tags.get("team.name"), Some("red"));
        assert_eq!(create.capabilities.as_slice().len(), 2);
        assert_eq!((create.policy.max_attempts, create.policy.backoff.factor), (9, 1.5));
        assert_eq!(create.idempotency_key.as_deref(), Some("order 7"));
    }

    #[test]
    fn a_field_that_does_not_fit_is_named() {
        let cases = [
            (Posted { kind: "a b".into(), ..posted() }, "kind contains ' '"),
            (Posted { namespace: Some("Acme".into()), ..posted() }, "namespace contains 'A'"),
            (Posted { lane: Some(String::new()), ..posted() }, "lane has 0 bytes"),
            (Posted { options: Some(r#"{"tags":{"A":"x"}}"#.into()), ..posted() }, "tags has the key \"A\""),
        ];
        for (row, problem) in cases {
            let text = row.submission(&Limits::default(), 7).unwrap_err().to_string();
            assert!(text.starts_with(problem), "{text}");
        }
    }

    #[test]
    fn a_row_waits_where_its_id_leads() {
        let id = Some(ExecutionId::from_parts(1, Route(7), 1));
        assert_eq!(Posted { id, ..posted() }.partition(3), PartitionId(1));
        assert_eq!(posted().partition(3), PartitionId(0));
    }

    #[test]
    fn what_is_told_of_a_row_can_be_kept_by_every_store() {
        assert_eq!(Fate::dead("a\0b"), Fate::Dead { reason: "a\u{fffd}b".into() });
        assert_eq!(Posted { kind: "x".repeat(1 << 20), ..posted() }.shown_kind().len(), SHOWN_CHARS);
    }
}
