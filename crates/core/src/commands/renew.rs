//! Renew leases: one call for everything a worker holds in a partition.

use super::Decision;
use super::lifecycle::holder;
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, State};
use crate::rejection::Rejection;
use crate::reply::{Renewal, Reply};
use crate::workspace::{Stop, Workspace};

#[derive(Clone, Debug, PartialEq)]
pub struct Renew {
    pub fences: Vec<Fence>,
}

impl Renew {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let mut unknown = Vec::new();
        for fence in &self.fences {
            if let Err(Stop::Need(asks)) = ws.execution(fence.execution) {
                unknown.extend(asks);
            }
        }
        if !unknown.is_empty() {
            return Err(Stop::Need(unknown));
        }
        let renewals = self.fences.iter().map(|fence| match renew(ws, *fence, now) {
            Ok(renewal) => Ok(Ok(renewal)),
            Err(Stop::Reject(rejection)) => Ok(Err(rejection)),
            Err(need) => Err(need),
        });
        Ok(Reply::Renewed(renewals.collect::<Result<Vec<Result<Renewal, Rejection>>, Stop>>()?))
    }
}

fn renew(ws: &mut Workspace, fence: Fence, now: Ms) -> Result<Renewal, Stop> {
    let current = ws.require(fence.execution)?;
    current.check_fence(fence)?;
    let mut execution = (**current).clone();
    let expires_at = now + execution.spec.policy.lease_ms;
    let State::Active(lease) = &mut execution.live.state else {
        unreachable!("check_fence lets only leased executions pass")
    };
    lease.expires_at = lease.expires_at.max(expires_at);
    let renewal = Renewal { expires_at: lease.expires_at, cancel: lease.cancel.clone() };
    let lease = lease.clone();
    if ws.lane(&execution.spec.lane).renewed_events {
        let holder = holder(&execution, &lease);
        ws.emit(&execution, now, Fact::LeaseRenewed { holder, expires_at: lease.expires_at });
    }
    ws.put_execution(execution, now);
    Ok(renewal)
}
