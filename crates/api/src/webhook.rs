//! What a webhook receives.

use crate::event::EventDoc;

answer! {
    /// The body of a delivery: events in the order in which they happened.
    pub struct DeliveryDoc {
        /// The id of the webhook.
        pub webhook: String,
        pub events: Vec<EventDoc>,
    }
}
