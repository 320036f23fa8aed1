//! An application that shares the store with the servers and posts rows in its own transactions.

use ff_core::inbox::Posted;
use ff_core::{ExecutionId, Payload, Route};

use super::queue::Happening;
use super::submission::{KINDS, LANES};
use super::{World, trace};
use crate::check::Check;
use crate::profile::PARTITIONS;

impl World {
    /// A transaction of the application commits, with a few rows in it.
    pub(super) fn application_posts(&mut self) -> Check {
        if self.healed.is_some() || self.is_contest() {
            return Ok(());
        }
        self.later(0, self.profile.post_ms, Happening::ApplicationPosts);
        for _ in 0..self.rng.range(1, 4) {
            let (posted, wrong) = self.posted();
            let (number, partition) = (posted.number, posted.partition(PARTITIONS));
            trace!(self, "row {number} is posted to {partition}, wrong: {wrong}");
            let id = posted.id.into_iter();
            let poisoned = id.filter(|_| self.rng.chance(self.profile.poison)).collect::<Vec<_>>();
            self.store.poison.extend(poisoned);
            self.known.extend(posted.id);
            self.store.inbox.posted(posted.clone(), wrong);
            self.store.state.post(posted);
        }
        Ok(())
    }

    fn posted(&mut self) -> (Posted, bool) {
        let number = self.store.inbox.next_number();
        let rng = &mut self.rng;
        // Keys of its own: what stands for a key is then always a row.
        let key = rng.maybe(3_000, |rng| format!("posted-{}", rng.below(6)));
        let route = match &key {
            Some(key) => Route::of_key("default", key),
            None => Route(rng.draw() as u16),
        };
        // The same key mostly comes with the same content.
        let content = if key.is_some() && rng.chance(8_000) { 0 } else { rng.below(100) };
        let wrong = rng.chance(1_500);
        let right = *rng.pick(&["{}", r#"{"priority":7}"#, r#"{"delay":"2s"}"#]);
        let options = if wrong { r#"{"priority":"high"}"# } else { right };
        let same = key.is_some();
        let posted = Posted {
            number,
            id: Some(ExecutionId::from_parts(self.now, route, rng.draw())),
            posted_at: self.now,
            kind: if same { KINDS[0] } else { *rng.pick(&KINDS) }.to_owned(),
            input: Payload::json(format!("{{\"n\":{content}}}")),
            namespace: None,
            lane: Some(if same { LANES[0] } else { *rng.pick(&LANES) }.to_owned()),
            key,
            options: Some(if same && !wrong { "{}" } else { options }.to_owned()),
        };
        (posted, wrong)
    }
}
