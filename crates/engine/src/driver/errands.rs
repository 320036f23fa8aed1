//! Errands on their way through the store: what is to leave, and when to look for what has come.

use ff_core::Ms;
use ff_store::{Parcel, StoreError};
use serde::{Deserialize, Serialize};

use super::{Done, Driver};
use crate::machine::{Input, Line};

/// How often parcels are exchanged while there are some to leave or some are expected. More often, the exchanges cost
/// more than they save.
const SOON_MS: Ms = 10;

/// The text of a parcel.
#[derive(Serialize, Deserialize)]
struct Letter {
    from: String,
    lines: Vec<Line>,
}

#[derive(Debug, Default)]
pub(super) struct Errands {
    /// Whether servers give each other errands on this store.
    pub are_given: bool,
    parcels: Vec<Parcel>,
    /// Parcels are being exchanged.
    exchanging: bool,
    /// When they were exchanged last, and when they will be.
    last: Ms,
    next: Ms,
}

impl Errands {
    pub fn add(&mut self, from: &str, to: String, lines: Vec<Line>) {
        let letter = Letter { from: from.to_owned(), lines };
        if let Ok(text) = serde_json::to_string(&letter) {
            self.parcels.push(Parcel { to, text });
        }
    }
}

impl Driver {
    pub(super) fn next_exchange(&self) -> Option<Ms> {
        (self.errands.are_given && !self.errands.exchanging).then_some(self.errands.next)
    }

    /// Leaves what there is for others and takes what they have left, one exchange at a time and not too often: until then
    /// what is to leave gathers.
    pub(super) fn exchange(&mut self, at: Ms) {
        let expected = !self.errands.parcels.is_empty() || self.machine.expects_errands(at);
        let pause = if expected { SOON_MS } else { self.pause() };
        let errands = &mut self.errands;
        errands.next = errands.next.min(errands.last + pause);
        if errands.exchanging || !errands.are_given || at < errands.next {
            return;
        }
        errands.exchanging = true;
        (errands.last, errands.next) = (at, at + pause);
        let (store, server) = (self.store.clone(), self.server.clone());
        let parcels = std::mem::take(&mut errands.parcels);
        self.ops.push(Box::pin(async move { Done::Exchanged(store.exchange(server, parcels).await) }));
    }

    /// A parcel that cannot be read is of another version of this program: whoever sent it does without an answer.
    pub(super) fn exchanged(&mut self, at: Ms, taken: Result<Vec<String>, StoreError>) {
        self.errands.exchanging = false;
        for text in taken.unwrap_or_default() {
            if let Ok(Letter { from, lines }) = serde_json::from_str(&text) {
                self.machine.accept(at, Input::Errands { from, lines });
            }
        }
    }
}
