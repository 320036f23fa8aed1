//! Set and remove tags of a flow.

use crate::Ms;
use crate::commands::Decision;
use crate::event::{By, Fact};
use crate::id::FlowId;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Sets some tags of a flow and removes others, all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct TagFlow {
    pub flow: FlowId,
    pub set: Vec<(Box<str>, Box<str>)>,
    pub remove: Vec<Box<str>>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl TagFlow {
    pub(in crate::commands) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut flow = (**ws.require_flow(self.flow)?).clone();
        let set = self.set.iter().map(|(key, value)| (&**key, &**value));
        let tags = flow.live.tags.edited(set, self.remove.iter().map(|key| &**key), &ws.limits)?;
        if tags != flow.live.tags {
            flow.live.tags = tags.clone();
            let by = By::new(&self.actor, &self.cause);
            ws.emit_flow(&flow, now, Fact::FlowTagged { by, tags });
            ws.put_flow(flow, now);
        }
        Ok(Reply::Flow { flow: ws.require_flow(self.flow)?.clone(), existing: false })
    }
}
