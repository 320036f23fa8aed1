//! A contest: servers near and far commit to one partition as fast as they can, and none may starve.

use ff_core::commands::{Create, Tag, When};
use ff_core::{Command, ExecutionId, Ms, Payload, Route};

use super::World;
use super::call::{CallId, Owner};
use super::submission::kind;
use crate::check::{Check, ensure};

/// How long a server may take for one command while others are busy.
pub const STARVES_AFTER_MS: Ms = 6_000;

const EXECUTIONS: usize = 4;

impl World {
    pub(super) fn is_contest(&self) -> bool {
        self.profile.contest && self.healed.is_none()
    }

    /// A change of one of a few executions of the one partition, which wait until the contest is over.
    pub(super) fn contender(&mut self) -> Command {
        if self.known.len() < EXECUTIONS {
            let id = ExecutionId::from_parts(self.now, Route(0), self.rng.draw());
            self.known.push(id);
            let create = Create::new(id, kind("charge"), Payload::json("{}"));
            return Create { start: Some(When::In(60_000)), ..create }.into();
        }
        let execution = *self.rng.pick(&self.known);
        let set = vec![("team".into(), self.rng.below(1_000).to_string().into_boxed_str())];
        let (actor, cause) = ("somebody".into(), "a contest".into());
        Tag { execution, set, remove: Vec::new(), actor, cause }.into()
    }

    /// In a contest every server has its own clients.
    pub(super) fn contest_server(&self, call: CallId) -> Option<usize> {
        let client = matches!(self.calls[call].owner, Owner::Client);
        (self.is_contest() && client).then(|| call % self.servers.len())
    }

    pub(super) fn check_starving(&self, server: usize) -> Check {
        if !self.is_contest() {
            return Ok(());
        }
        let commands = self.servers[server].open.values().filter(|it| self.is_command(it.call));
        if let Some(oldest) = commands.map(|it| it.at).min() {
            let waiting_ms = self.now - oldest;
            ensure!(
                waiting_ms < STARVES_AFTER_MS,
                "server {server} starves: a command waits {waiting_ms} ms"
            );
        }
        Ok(())
    }

    fn is_command(&self, call: CallId) -> bool {
        matches!(self.calls[call].what, super::call::What::Command { .. })
    }
}
