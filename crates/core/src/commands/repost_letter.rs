//! Repost letter: a dead letter goes back to the inbox, where it is decided anew.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::PartitionId;
use crate::inbox::Fate;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Puts a dead letter back into the inbox, as it was posted: after a lane was resumed, for instance.
#[derive(Clone, Debug, PartialEq)]
pub struct RepostLetter {
    /// The partition in which the row was posted.
    pub partition: PartitionId,
    /// Its number in the inbox.
    pub number: u64,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl RepostLetter {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let letter = ws.require_letter(self.number)?;
        let (by, posted) = (By::new(&self.actor, &self.cause), self.number);
        let (id, kind) = (letter.id, letter.kind.clone());
        ws.emit_global(None, now, Fact::LetterReposted { by, posted, id, kind });
        ws.settle_posted(self.number, letter, Fate::Reposted);
        Ok(Reply::Letter(Fate::Reposted))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::lane::LaneMode;

    #[test]
    fn a_reposted_letter_is_decided_anew_as_it_was_posted() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            bench.ok(super::super::SetLane { mode: Some(LaneMode::Draining), ..set_lane("default") });
            let receive = bench.posted(|_| {});
            let (number, id) = (receive.posted.number, receive.posted.id);
            assert!(matches!(bench.ok(receive.clone()), Reply::Received(Fate::Dead { .. })));
            bench.ok(super::super::SetLane { mode: Some(LaneMode::Open), ..set_lane("default") });
            assert_eq!(bench.ok(repost_letter(number)), Reply::Letter(Fate::Reposted));
            let fact = &bench.store.events.last().unwrap().fact;
            let Fact::LetterReposted { by, posted, id: told, .. } = fact else { panic!("{fact:?}") };
            assert_eq!((&*by.actor, *posted, *told), ("op", number, id));
            assert_eq!(bench.store.inbox.values().collect::<Vec<_>>(), [&*receive.posted]);
            assert!(bench.store.dead_letters.is_empty());
            // It is no letter any more, whatever is asked of it.
            assert_eq!(bench.refused(repost_letter(number)).code(), "not_found");
            assert_eq!(bench.refused(drop_letter(number)).code(), "not_found");
            assert_eq!(bench.ok(receive), Reply::Received(Fate::Taken));
            assert!(bench.find(id.unwrap()).is_some());
        }
    }

    #[test]
    fn a_letter_that_dies_again_is_a_letter_again() {
        let mut bench = Bench::new();
        // All in one batch: what it becomes is told in order.
        bench.batch_size = 0;
        let receive = bench.posted(|it| it.kind.clear());
        let number = receive.posted.number;
        bench.ok(receive.clone());
        bench.ok(repost_letter(number));
        bench.commit();
        assert!(bench.store.dead_letters.is_empty());
        bench.ok(receive);
        bench.ok(drop_letter(number));
        bench.commit();
        assert!(bench.store.dead_letters.is_empty() && bench.store.inbox.is_empty());
    }
}
