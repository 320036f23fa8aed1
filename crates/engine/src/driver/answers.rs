//! What the store has answered.

use std::sync::Arc;

use ff_core::commands::BuryWorker;
use ff_core::payload::{PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, InstanceId, Ms, PartitionId};
use ff_store::{Outcome, StoreError};
use rustc_hash::FxHashSet;

use crate::failure::Failure;
use crate::machine::Input;

use super::{Done, Driver, GONE_MS, GONE_SOON_MS, Looked, Waiter};

/// How often a store that takes no writes is told of.
const FAILURE_TOLD_EVERY_MS: Ms = 10_000;

impl Driver {
    pub(super) fn done(&mut self, done: Done) {
        let at = self.at();
        match done {
            Done::Committed { commits, took } => {
                self.gathering.took = Some(took);
                for (outcome, stored) in commits {
                    self.notice_failure(at, &outcome);
                    // Only what is stored is handed out: a submission that was refused must not reach a worker.
                    if let Input::Committed { outcome: Outcome::Committed { .. }, .. } = &outcome {
                        stored.into_iter().for_each(|(id, input)| self.inputs.submitted(id, input));
                    }
                    self.machine.accept(at, outcome);
                }
            }
            Done::Inputs(inputs) => {
                for input in inputs {
                    if let Input::Loaded { result: Ok(loaded), .. } = &input {
                        let answers = loaded.answers.iter();
                        let ready = answers.filter_map(|answer| match answer {
                            Answer::Ready { executions, .. } => Some(executions),
                            _ => None,
                        });
                        let executions: Vec<_> = ready.flatten().cloned().collect();
                        self.prefetch(executions);
                    }
                    let is_status = matches!(input, Input::Status(_));
                    if let Input::Status(Ok((_, statuses))) = &input {
                        statuses.iter().for_each(|status| self.publish(status.partition, status.next_event));
                    }
                    self.machine.accept(at, input);
                    if is_status {
                        self.watch_partitions();
                        self.nudges.drain(..).for_each(|answer| answer.send(()).unwrap_or(()));
                    }
                }
            }
            Done::Prefetched(inputs) => {
                inputs.into_iter().for_each(|(id, input)| self.inputs.read_ahead(id, input));
            }
            Done::Tasks { answer, tasks } => match tasks {
                Ok(tasks) => self.send_tasks(answer, tasks),
                Err((error, executions)) => {
                    self.give_back(executions);
                    let _ = answer.send(Err(Failure::Unavailable(error.to_string())));
                }
            },
            Done::Looked { execution, ended } => self.looked(execution, ended),
            Done::LookedAtFlow { flow, found } => self.looked_at_flow(flow, found),
            Done::Alive(alive) => {
                self.beating = false;
                // If it cannot be read, the list known so far stands; it only orders.
                if let Ok(alive) = alive {
                    self.set_servers(&alive);
                }
            }
            Done::Exchanged(taken) => self.exchanged(at, taken),
            Done::Gone(gone) => {
                self.gone_asked = false;
                if let Ok(gone) = gone {
                    self.gone_since.retain(|server, _| gone.contains(server));
                    gone.into_iter().for_each(|server| self.bury(at, server));
                }
            }
            Done::Left => {}
        }
    }

    /// A store that takes no writes is told of now and then, also if nobody waits for an answer.
    fn notice_failure(&mut self, at: Ms, outcome: &Input) {
        let Input::Committed { partition, outcome: Outcome::Failed(error), .. } = outcome else { return };
        if at >= self.failure_told_at + FAILURE_TOLD_EVERY_MS {
            self.failure_told_at = at;
            tracing::warn!(%partition, %error, "the store does not take a commit; it is tried again");
        }
    }

    pub(super) fn looked(&mut self, execution: ExecutionId, ended: Result<Looked, StoreError>) {
        let answer = match ended {
            Ok(Looked::Alive) => return,
            Ok(Looked::Ended(ended)) => Ok(ended),
            Ok(Looked::Missing) => Err(Failure::Rejected(ff_core::Rejection::NotFound {
                what: "execution".into(),
                id: execution.to_string(),
            })),
            Err(error) => Err(Failure::Unavailable(error.to_string())),
        };
        for wait in self.waits.remove(&execution).unwrap_or_default() {
            let _ = wait.send(answer.clone());
        }
    }

    /// Reads the inputs of executions that are about to be claimed.
    pub(super) fn prefetch(&mut self, executions: Vec<Arc<Execution>>) {
        let mut room = self.config.payload_cache_bytes as u64 / 2;
        let wanted = executions.into_iter().filter(|it| !self.inputs.contains(it.id)).take_while(|it| {
            let fits = it.spec.input_bytes < room;
            room = room.saturating_sub(it.spec.input_bytes + 128);
            fits
        });
        let keys: Vec<_> = wanted.map(|it| PayloadKey { execution: it.id, slot: Slot::Input }).collect();
        if keys.is_empty() {
            return;
        }
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let read = store.payloads(keys.clone()).await.unwrap_or_default();
            let found = keys.into_iter().zip(read).filter_map(|(key, input)| Some((key.execution, input?)));
            Done::Prefetched(found.collect())
        }));
    }

    /// A server process has ended: its embedded workers are dead and their leases return at once.
    pub(super) fn bury(&mut self, at: Ms, server: String) {
        // Who its workers were is known for sure only from partitions read after its end.
        let since = *self.gone_since.entry(server.clone()).or_insert(at);
        if !self.machine.is_fresh_since(since) {
            self.next_gone = self.next_gone.min(at + GONE_SOON_MS);
            return;
        }
        let partitions = self.store.info().partitions;
        let all = (0..partitions).flat_map(|n| self.machine.workspace(PartitionId(n)).workers());
        let theirs: FxHashSet<InstanceId> = all
            .filter(|it| it.server.as_deref() == Some(&server) && it.died_at.is_none())
            .map(|it| it.instance)
            .collect();
        if theirs.is_empty() {
            // Nothing is left to do, or another server has done it.
            if self.burying.remove(&server) || self.machine.is_idle() {
                let store = self.store.clone();
                self.ops.push(Box::pin(async move {
                    let _ = store.leave(server).await;
                    Done::Left
                }));
            }
            return;
        }
        self.burying.insert(server.clone());
        for instance in theirs {
            let cause = format!("process {server} has ended").into_boxed_str();
            let command = BuryWorker { instance, actor: "system".into(), cause }.into();
            let ticket = self.ticket(Waiter::Own);
            let partition = instance.route().partition(partitions);
            self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at: at + GONE_MS });
        }
    }
}
