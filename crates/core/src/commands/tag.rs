//! Set and remove tags, at any time in an execution's life.

use super::Decision;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::ExecutionId;
use crate::reply::Reply;
use crate::workspace::Workspace;

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
