//! Set and remove tags, at any time in an execution's life.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::ExecutionId;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Sets and removes tags of an execution, all or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    pub execution: ExecutionId,
    pub set: Vec<(Box<str>, Box<str>)>,
    pub remove: Vec<Box<str>>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Tag {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        let set = self.set.iter().map(|(key, value)| (&**key, &**value));
        let tags = current.live.tags.edited(set, self.remove.iter().map(|key| &**key), &ws.limits)?;
        if tags == current.live.tags {
            return Ok(Reply::Changed(current.clone()));
        }
        let mut execution = (**current).clone();
        execution.live.tags = tags.clone();
        let by = By::new(&self.actor, &self.cause);
        ws.emit(&execution, now, Fact::Tagged { by, tags });
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn tags_are_set_and_removed_in_any_state_and_ride_on_later_events() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(tag(fence.execution, "team", "red"));
        bench.ok(complete(fence));
        assert_eq!(bench.store.events.last().unwrap().tags.get("team"), Some("red"));
        bench.ok(Tag { set: vec![], remove: vec!["team".into()], ..tag(fence.execution, "team", "") });
        assert!(bench.get(fence.execution).live.tags.is_empty());
    }

    #[test]
    fn tags_that_change_nothing_are_no_news_and_bad_ones_are_refused_whole() {
        let mut bench = Bench::new();
        let id = bench.create();
        bench.ok(tag(id, "team", "red"));
        let events = bench.store.events.len();
        bench.ok(tag(id, "team", "red"));
        assert_eq!(bench.store.events.len(), events);
        let half_bad =
            Tag { set: vec![("good".into(), "1".into()), ("Bad".into(), "2".into())], ..tag(id, "", "") };
        assert_eq!(bench.refused(half_bad).code(), "invalid");
        assert_eq!(bench.get(id).live.tags.get("good"), None);
    }
}
