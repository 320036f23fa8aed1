//! Events.

use ff_core::event::Event;

use crate::Json;
use crate::time::Time;

answer! {
    /// Something that happened.
    pub struct EventDoc {
        /// The place right after it; hand it back to go on from here.
        pub cursor: String,
        pub at: Time,
        pub family: String,
        /// The word for what happened, such as `completed`.
        pub event: String,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub execution: Option<ff_core::ExecutionId>,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub flow: Option<ff_core::FlowId>,
        pub namespace: Option<String>,
        pub lane: Option<String>,
        /// The facts, each event's own.
        pub fact: Json,
    }
}

impl EventDoc {
    pub fn of(event: &Event, cursor: String) -> EventDoc {
        EventDoc {
            cursor,
            at: Time(event.at),
            family: event.fact.family().word().to_owned(),
            event: event.fact.word().to_owned(),
            execution: event.execution,
            flow: event.flow,
            namespace: event.namespace.as_ref().map(|it| it.to_string()),
            lane: event.lane.as_ref().map(|it| it.to_string()),
            fact: Json::of(&event.fact),
        }
    }
}

answer! {
    /// A page of events.
    pub struct EventPage {
        pub events: Vec<EventDoc>,
        /// Where to go on; also when there is nothing new yet.
        pub next_cursor: String,
    }
}
