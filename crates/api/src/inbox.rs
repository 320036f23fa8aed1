//! Dead letters: rows that applications posted into the store and that could not become executions.

use ff_core::ExecutionId;
use ff_core::inbox::DeadLetter;

use crate::payload::split;
use crate::time::Time;
use crate::{Encoded, Json};

answer! {
    /// A posted row that could not become an execution, as it was posted.
    pub struct LetterDoc {
        pub number: u64,
        /// The id it was to have.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub id: Option<ExecutionId>,
        pub kind: String,
        pub namespace: Option<String>,
        pub lane: Option<String>,
        pub key: Option<String>,
        /// Everything else, as the text of a JSON object.
        pub options: Option<String>,
        pub input: Option<Json>,
        pub input_encoded: Option<Encoded>,
        pub posted_at: Time,
        pub given_up_at: Time,
        /// Why it could not become one.
        pub reason: String,
    }
}

impl From<&DeadLetter> for LetterDoc {
    fn from(it: &DeadLetter) -> LetterDoc {
        let DeadLetter { posted, reason, at } = it;
        let (input, input_encoded) = split(&posted.input);
        LetterDoc {
            number: posted.number,
            id: posted.id,
            kind: posted.kind.clone(),
            namespace: posted.namespace.clone(),
            lane: posted.lane.clone(),
            key: posted.key.clone(),
            options: posted.options.clone(),
            input,
            input_encoded,
            posted_at: Time(posted.posted_at),
            given_up_at: Time(*at),
            reason: reason.clone(),
        }
    }
}

answer! {
    /// A page of dead letters in the order of their numbers.
    pub struct LettersDoc {
        pub dead_letters: Vec<LetterDoc>,
        /// Where the next page starts, if there may be one.
        pub next_after: Option<u64>,
    }
}
