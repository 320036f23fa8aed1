//! Events, wherever they come from.

use ff_engine::subscription::Item;
use ff_engine::{Cursor, Subscription as OfEngine};

use super::remote::Following;
use crate::{Error, Seen};

#[derive(Debug)]
pub(crate) enum Subscription {
    Embedded(Box<OfEngine>),
    Remote(Following),
}

impl Subscription {
    /// The next event, as soon as there is one. Safe to drop and call again: nothing is lost.
    ///
    /// # Errors
    /// A server refuses to go on. A store or server that is out of reach is waited for.
    pub async fn next(&mut self) -> Result<Seen, Error> {
        match self {
            Subscription::Embedded(subscription) => loop {
                match subscription.next().await {
                    Item::Event { event, cursor, .. } => return Ok(Seen { event: *event, cursor }),
                    Item::Interrupted { error, .. } => tracing::warn!(%error, "events are interrupted"),
                }
            },
            Subscription::Remote(following) => following.next().await,
        }
    }

    /// The place right after everything received so far.
    pub fn cursor(&self) -> &Cursor {
        match self {
            Subscription::Embedded(subscription) => subscription.cursor(),
            Subscription::Remote(following) => following.cursor(),
        }
    }
}
