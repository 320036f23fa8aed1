//! Drop letter: a dead letter is removed for good.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::PartitionId;
use crate::inbox::Fate;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Removes a dead letter, of which only the event is left.
#[derive(Clone, Debug, PartialEq)]
pub struct DropLetter {
    /// The partition in which the row was posted.
    pub partition: PartitionId,
    /// Its number in the inbox.
    pub number: u64,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl DropLetter {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let letter = ws.require_letter(self.number)?;
        let (by, posted) = (By::new(&self.actor, &self.cause), self.number);
        let (id, kind) = (letter.id, letter.kind.clone());
        ws.emit_global(None, now, Fact::LetterDropped { by, posted, id, kind });
        ws.settle_posted(self.number, letter, Fate::Dropped);
        Ok(Reply::Letter(Fate::Dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_dropped_letter_leaves_only_an_event_that_names_who_did_it() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let letters = [(); 2].map(|()| {
                let receive = bench.posted(|it| it.kind.clear());
                let number = receive.posted.number;
                bench.ok(receive);
                number
            });
            assert_eq!(bench.ok(drop_letter(letters[0])), Reply::Letter(Fate::Dropped));
            let fact = &bench.store.events.last().unwrap().fact;
            let Fact::LetterDropped { by, posted, .. } = fact else { panic!("{fact:?}") };
            assert_eq!((&*by.actor, &*by.cause, *posted), ("op", "test", letters[0]));
            assert_eq!(bench.store.dead_letters.keys().copied().collect::<Vec<_>>(), [letters[1]]);
            assert!(bench.store.inbox.is_empty());
            assert_eq!(
                bench.refused(drop_letter(letters[0])).to_string(),
                format!("there is no dead letter {}", letters[0])
            );
        }
    }

    #[test]
    fn a_number_that_was_never_posted_is_not_found() {
        for number in [0, 1, u64::MAX] {
            assert_eq!(Bench::new().refused(drop_letter(number)).code(), "not_found", "{number}");
        }
    }
}
