//! Renew leases: one call for everything a worker holds in a partition.

use serde::{Deserialize, Serialize};

use super::Decision;
use super::lifecycle::holder;
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, State};
use crate::rejection::Rejection;
use crate::reply::{Renewal, Reply};
use crate::workspace::{Stop, Workspace};

/// Puts off the ends of leases; each is answered for itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    let expires_at = now.saturating_add(execution.spec.policy.lease_ms);
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

#[cfg(test)]
mod tests {
    use super::super::SetLane;
    use super::super::testing::{renew, *};
    use super::*;

    #[test]
    fn a_renewal_puts_the_end_of_the_lease_off_and_leaves_the_timer_alone() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let timer = bench.timer(fence.execution);
        bench.jump(20_000);
        let expires_at = bench.now + 30_000;
        let renewed = Reply::Renewed(vec![Ok(Renewal { expires_at, cancel: None })]);
        assert_eq!(bench.ok(renew(fence)), renewed);
        assert_eq!(bench.timer(fence.execution), timer);
        bench.pass(29_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution).0, "delayed");
    }

    #[test]
    fn each_lease_of_a_batch_is_answered_for_itself() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let (good, asked, lost) = (bench.active(), bench.active(), bench.active());
            bench.ok(cancel(asked.execution, Some(5_000)));
            bench.ok(revoke(lost.execution));
            let gone = Fence { execution: bench.next_id(), ..good };
            let Reply::Renewed(renewals) = bench.ok(Renew { fences: vec![good, asked, lost, gone] }) else {
                panic!()
            };
            assert_eq!(renewals[0].as_ref().unwrap().cancel, None);
            let cut_at = renewals[1].as_ref().unwrap().cancel.as_ref().unwrap().cut_at;
            assert_eq!(cut_at, bench.now + 5_000);
            let codes: Vec<_> = renewals[2..].iter().map(|it| it.as_ref().unwrap_err().code()).collect();
            assert_eq!(codes, ["lease_lost", "not_found"]);
        }
    }

    #[test]
    fn a_lease_that_is_over_but_not_yet_acted_on_can_be_renewed() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.jump(40_000);
        assert_eq!(code(&bench.run(renew(fence))), "ok");
        bench.pass(0);
        assert_eq!(bench.state(fence.execution).0, "active");
    }

    #[test]
    fn a_renewal_is_an_event_only_where_the_lane_wants_it() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(renew(fence));
        assert!(!bench.facts(fence.execution).contains(&"lease_renewed"));
        bench.ok(SetLane { renewed_events: Some(true), ..set_lane("default") });
        bench.ok(renew(fence));
        assert!(bench.facts(fence.execution).contains(&"lease_renewed"));
    }
}
