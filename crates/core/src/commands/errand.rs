//! Errands: commands that a server may have another one carry out.

use serde::{Deserialize, Serialize};

use super::{Command, Complete, Fail, Release, Renew};

/// A command that does no harm if it is carried out twice: whoever ends a lease again, with the same fence, gets its
/// first reply, and a renewal only says again that the worker lives. That is what lets a server ask another one for it
/// and, if no answer comes, decide it itself without knowing whether the other one did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Errand {
    Complete(Complete),
    Fail(Fail),
    Release(Release),
    Renew(Renew),
}

impl Errand {
    /// The command as an errand; `None` if it must not be carried out twice.
    pub fn of(command: &Command) -> Option<Errand> {
        Some(match command {
            Command::Complete(it) => Errand::Complete(it.clone()),
            Command::Fail(it) => Errand::Fail(it.clone()),
            Command::Release(it) => Errand::Release(it.clone()),
            Command::Renew(it) => Errand::Renew(it.clone()),
            _ => return None,
        })
    }
}

impl From<Errand> for Command {
    fn from(errand: Errand) -> Command {
        match errand {
            Errand::Complete(it) => it.into(),
            Errand::Fail(it) => it.into(),
            Errand::Release(it) => it.into(),
            Errand::Renew(it) => it.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// Every errand, as it travels, carried out twice: nothing but leases that are put off changes the second time.
    #[test]
    fn an_errand_that_is_carried_out_twice_gets_its_first_reply() {
        type Make = fn(crate::execution::Fence) -> Command;
        let makes: [Make; 4] = [
            |fence| Complete { fence, result: Some(crate::payload::Payload::json("[1]")) }.into(),
            |fence| fail(fence).into(),
            |fence| Release::new(fence).into(),
            |fence| Renew { fences: vec![fence] }.into(),
        ];
        for make in makes {
            let mut bench = Bench::new();
            let fence = bench.active_with(|_| {});
            let command = make(fence);
            let errand = Errand::of(&command).unwrap();
            let text = serde_json::to_string(&errand).unwrap();
            let arrived: Errand = serde_json::from_str(&text).unwrap();
            assert_eq!(Command::from(arrived.clone()), command);
            let first = bench.ok(Command::from(arrived.clone()));
            let before = bench.store.executions.clone();
            assert_eq!(bench.ok(Command::from(arrived)), first, "{text}");
            assert_eq!(bench.store.executions, before, "{text}");
        }
    }

    #[test]
    fn what_must_not_happen_twice_is_no_errand() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|_| {});
        let command = Command::from(super::super::Delay::new(fence, 1_000));
        assert_eq!(Errand::of(&command), None);
    }
}
