//! What records look like to callers who may not see payloads: without the digest of the content, by which whoever has a
//! guess of an input could check it.

use std::sync::Arc;

use ff_core::execution::ContentDigest;
use ff_core::{Execution, Flow};

use crate::access::Caller;

const HIDDEN: ContentDigest = ContentDigest(0);

/// A record that says something of payloads.
pub trait Telling: Clone {
    fn hide(&mut self);
}

impl Telling for Execution {
    fn hide(&mut self) {
        Arc::make_mut(&mut self.spec).digest = HIDDEN;
    }
}

impl Telling for Flow {
    fn hide(&mut self) {
        Arc::make_mut(&mut self.spec).digest = HIDDEN;
    }
}

impl<T: Telling> Telling for Arc<T> {
    fn hide(&mut self) {
        Arc::make_mut(self).hide();
    }
}

impl<T: Telling> Telling for Vec<T> {
    fn hide(&mut self) {
        self.iter_mut().for_each(T::hide);
    }
}

/// The record as the caller may see it.
pub fn shown<T: Telling>(caller: &Caller, record: &T) -> T {
    let mut record = record.clone();
    if !caller.sees_payloads() {
        record.hide();
    }
    record
}
