//! What the machine asks for and tells: carried out, answered, passed on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ff_core::change::{Changes, ExecutionChange};
use ff_core::commands::{ANSWER_BYTES_MAX, Release};
use ff_core::flow::inputs::is_given_more;
use ff_core::key::Key;
use ff_core::payload::{PayloadKey, Slot};
use ff_core::{Execution, ExecutionId, FlowId, InstanceId, Ms, PartitionId, Payload, PublicState, Reply};
use ff_store::{Commit, Store, StoreError};
use rustc_hash::FxHashSet;

use crate::failure::Failure;
use crate::history::{add_history, has_history};
use crate::inputs::complete;
use crate::machine::{Input, News, Output, Ticket};

use super::{Answered, Done, Driver, Ended, Group, LIVE_MAX, RECENT_MAX, RECENT_RESULT_MAX, Task, Waiter};

impl Driver {
    pub(super) fn carry_out(&mut self) {
        for output in self.machine.take_outputs() {
            let store = self.store.clone();
            match output {
                Output::Load { token, asks } => {
                    let shared = self.shared.clone();
                    self.ops.push(Box::pin(async move {
                        let asked = Instant::now();
                        let result = store.load(token.partition, asks).await;
                        shared.meters.store_load.add(asked.elapsed());
                        Done::Inputs(vec![Input::Loaded { token, result }])
                    }));
                }
                Output::Commit(commits) => self.commit(commits),
                Output::Written { partition, number } => self.ops.push(Box::pin(async move {
                    let result = store.written(partition, number).await;
                    Done::Inputs(vec![Input::Written { partition, number, result }])
                })),
                Output::Turn { partition, server, for_ms } => self.ops.push(Box::pin(async move {
                    let result = store.turn(partition, server, for_ms).await;
                    Done::Inputs(vec![Input::Turn { partition, result }])
                })),
                Output::Status => {
                    let shared = self.shared.clone();
                    self.ops.push(Box::pin(async move {
                        let asked = Instant::now();
                        let status = store.status().await;
                        shared.meters.store_status.add(asked.elapsed());
                        Done::Inputs(vec![Input::Status(status)])
                    }));
                }
                Output::Errands { to, lines } => self.errands.add(&self.server, to, lines),
                Output::Reply { ticket, result } => self.reply(ticket, result),
                Output::News { partition, news } => self.news(partition, news),
                Output::Foreign { partition, keys, disturbed, next_event } => {
                    self.foreign(partition, keys, next_event);
                    self.disturb(disturbed);
                }
            }
        }
    }

    /// Sends commits, those that the store flushes apart as calls of their own: none waits for the answer of
    /// another line.
    fn commit(&mut self, commits: Vec<Commit>) {
        let lines = self.store.info().lines.max(1);
        let mut calls: Vec<Vec<Commit>> = (0..lines).map(|_| Vec::new()).collect();
        for commit in commits {
            calls[usize::from(commit.partition.0 % lines)].push(commit);
        }
        for commits in calls.into_iter().filter(|commits| !commits.is_empty()) {
            let (store, shared) = (self.store.clone(), self.shared.clone());
            self.ops.push(Box::pin(async move {
                let asked = Instant::now();
                let named: Vec<_> =
                    commits.iter().map(|it| (it.partition, it.id, soon_claimed(&it.changes))).collect();
                let outcomes = store.commit(commits).await;
                let took = asked.elapsed();
                shared.meters.store_commit.add(took);
                let committed = |((partition, id, stored), outcome)| {
                    (Input::Committed { partition, id, outcome }, stored)
                };
                Done::Committed { commits: named.into_iter().zip(outcomes).map(committed).collect(), took }
            }));
        }
    }

    pub(super) fn reply(&mut self, ticket: Ticket, result: Result<Reply, Failure>) {
        let Some(slot) = self.slots.remove(&ticket) else { return };
        if let Ok(Reply::Created { execution, existing: false }) = &result
            && self.live.len() < LIVE_MAX
            && !self.recent.contains_key(execution)
        {
            self.live.insert(*execution);
        }
        if let Ok(Reply::Changed(execution)) = &result
            && execution.end().is_none()
        {
            // A replay: its earlier end is not the one that is waited for from now on.
            self.recent.remove(&execution.id);
        }
        match slot {
            Waiter::One(answer) => {
                self.gathering.answered += 1;
                let _ = answer.send(result);
            }
            Waiter::Part { group, index } => {
                let Some(it) = self.groups.get_mut(&group) else { return };
                it.results[index] = Some(result);
                it.left -= 1;
                if it.left == 0
                    && let Some(Group { results, answer, .. }) = self.groups.remove(&group)
                {
                    self.gathering.answered += 1;
                    let _ = answer.send(results.into_iter().flatten().collect());
                }
            }
            Waiter::Poll { number, answer } => {
                self.polls.remove(&number);
                match result {
                    Ok(Reply::Claimed(claimed)) => self.hand_out(claimed, answer),
                    Ok(_) => drop(answer.send(Ok(Vec::new()))),
                    Err(failure) => drop(answer.send(Err(failure))),
                }
            }
            Waiter::Own => {}
        }
    }

    /// Forgets a poll whose caller is gone, unless a claim for it is on its way; that one is given back.
    pub(super) fn drop_poll(&mut self, number: u64) {
        if let Some(ticket) = self.polls.get(&number).copied()
            && self.machine.drop_poll(ticket)
        {
            self.polls.remove(&number);
            self.slots.remove(&ticket);
        }
    }

    /// Gives claimed executions to their worker, with their inputs.
    pub(super) fn hand_out(&mut self, claimed: Vec<Arc<Execution>>, answer: Answered<Vec<Task>>) {
        let mut tasks = Vec::with_capacity(claimed.len());
        let mut missing = Vec::new();
        for execution in claimed {
            match self.inputs.take(execution.id) {
                Some(input) => tasks.push(Task::new(execution, input)),
                None => missing.push(execution),
            }
        }
        let more = |it: &Execution| is_given_more(it) || has_history(it);
        if missing.is_empty() && !tasks.iter().any(|task| more(&task.execution)) {
            return self.send_tasks(answer, tasks);
        }
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let claimed =
                tasks.iter().map(|it| it.execution.clone()).chain(missing.iter().cloned()).collect();
            let tasks = complete_tasks(&*store, tasks, missing).await.map_err(|error| (error, claimed));
            Done::Tasks { answer, tasks }
        }));
    }

    /// A worker that is gone gets nothing: its leases go back without waiting for them to run out. So does what makes an
    /// answer too large: how much members of flows are given and steps came to is known only now.
    pub(super) fn send_tasks(&mut self, answer: Answered<Vec<Task>>, mut tasks: Vec<Task>) {
        let too_much = tasks.split_off(fitting(tasks.iter().map(Task::bytes)));
        self.give_back(too_much.into_iter().map(|task| task.execution).collect());
        if let Err(Ok(tasks)) = answer.send(Ok(tasks)) {
            self.give_back(tasks.into_iter().map(|task| task.execution).collect());
        }
    }

    pub(super) fn give_back(&mut self, executions: Vec<Arc<Execution>>) {
        let at = self.at();
        let partitions = self.store.info().partitions;
        for execution in executions {
            let partition = execution.id.route().partition(partitions);
            let command = Release::new(execution.fence()).into();
            let ticket = self.ticket(Waiter::Own);
            self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at: Ms::MAX });
        }
    }

    pub(super) fn news(&mut self, partition: PartitionId, news: News) {
        self.publish(partition, news.next_event);
        self.shared.meters.batch_commands.add(news.commands);
        for ms in news.waited_ms {
            self.shared.meters.time_to_start.add_ms(ms);
        }
        for (execution, result) in news.ended {
            if let (Some(attempt), Some(end)) = (&execution.live.attempt, execution.end()) {
                self.shared.meters.run.add_ms(end.at - attempt.started_at);
            }
            crate::spans::ended(&execution);
            let id = execution.id;
            self.live.remove(&id);
            let mut ended = Ended { execution, result };
            if let Some(waits) = self.waits.remove(&id) {
                for answer in waits {
                    let _ = answer.send(Ok(ended.clone()));
                }
            }
            ended.result.take_if(|result| result.len() > RECENT_RESULT_MAX);
            if self.recent.insert(id, ended).is_none() {
                self.recent_order.push_back(id);
            }
            if self.recent_order.len() > RECENT_MAX
                && let Some(oldest) = self.recent_order.pop_front()
            {
                self.recent.remove(&oldest);
            }
        }
        for flow in news.flows {
            self.answer_flow_waits(flow.id, &Ok(flow.clone()));
        }
        if !news.streams.is_empty() {
            self.shared.tails.wake(Some(news.streams.into_iter()));
        }
        for id in news.removed {
            self.recent.remove(&id);
            self.live.remove(&id);
        }
        self.disturb(news.disturbed);
    }

    /// Tells workers which of their leases they should look at.
    fn disturb(&mut self, disturbed: Vec<(InstanceId, ExecutionId)>) {
        for (instance, execution) in disturbed {
            if let Some(watcher) = self.watchers.get(&instance)
                && watcher.send(execution).is_err()
            {
                self.watchers.remove(&instance);
            }
        }
    }

    pub(super) fn publish(&self, partition: PartitionId, next_event: u64) {
        let before = self.shared.next_events[partition.index()].fetch_max(next_event, Ordering::Release);
        // Where stores are looked at many times a second, thousands of readers must not be woken for nothing.
        let has_news = next_event > before || self.shared.unread.swap(false, Ordering::AcqRel);
        if has_news && self.shared.subscribers.load(Ordering::Relaxed) > 0 {
            self.shared.changed.notify_waiters();
        }
    }

    /// Another process has committed: look after everybody here who waits for what it changed.
    pub(super) fn foreign(&mut self, partition: PartitionId, keys: Option<Vec<Key>>, next_event: u64) {
        self.publish(partition, next_event);
        if !self.shared.tails.is_empty() {
            let changed = keys.as_ref().map(|keys| {
                keys.iter().filter_map(|key| match key {
                    Key::Stream(id) | Key::Execution(id) => Some(*id),
                    _ => None,
                })
            });
            self.shared.tails.wake(changed);
        }
        let partitions = self.store.info().partitions;
        let here = |id: &ExecutionId| id.route().partition(partitions) == partition;
        let flows: Vec<FlowId> = match &keys {
            Some(keys) => {
                let flows = keys.iter().filter_map(|key| match key {
                    Key::Flow(id) => Some(*id),
                    _ => None,
                });
                flows.collect()
            }
            None => self.flow_waits.keys().copied().collect(),
        };
        for id in flows {
            if self.flow_waits.contains_key(&id) {
                self.look_at_flow(id);
            }
        }
        let changed: Vec<ExecutionId> = match keys {
            Some(keys) => {
                let executions = keys.into_iter().filter_map(|key| match key {
                    Key::Execution(id) => Some(id),
                    _ => None,
                });
                executions.collect()
            }
            None => {
                let known = self.waits.keys().chain(&self.live).chain(self.recent.keys());
                known.copied().filter(here).collect()
            }
        };
        for id in changed {
            self.recent.remove(&id);
            self.live.remove(&id);
            if self.waits.contains_key(&id) {
                self.look(id);
            }
        }
    }
}

/// The inputs of what a commit creates, but of what waits for a time.
fn soon_claimed(changes: &Changes) -> Vec<(ExecutionId, Payload)> {
    let inserted = changes.executions.iter().filter_map(|change| match change {
        ExecutionChange::Insert(it) if it.public_state() == PublicState::Delayed => Some(it.id),
        _ => None,
    });
    let delayed: FxHashSet<ExecutionId> = inserted.collect();
    let inputs = changes.payloads.iter().filter(|(key, _)| key.slot == Slot::Input);
    let soon = inputs.filter(|(key, _)| !delayed.contains(&key.execution));
    soon.map(|(key, input)| (key.execution, input.clone())).collect()
}

/// How many of the first tasks fit into one answer; at least one if there is any.
fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |(n, size): &(usize, usize)| {
        bytes += size;
        *n == 0 || bytes as u64 <= ANSWER_BYTES_MAX
    };
    sizes.enumerate().take_while(fits).count()
}

/// Reads the inputs that are missing, and what members of flows are given beside their own.
async fn complete_tasks(
    store: &dyn Store,
    mut tasks: Vec<Task>,
    missing: Vec<Arc<Execution>>,
) -> Result<Vec<Task>, StoreError> {
    if !missing.is_empty() {
        let keys = missing.iter().map(|it| PayloadKey { execution: it.id, slot: Slot::Input }).collect();
        let read = missing.into_iter().zip(store.payloads(keys).await?);
        tasks.extend(read.filter_map(|(execution, input)| Some(Task::new(execution, input?))));
    }
    for task in tasks.iter_mut().filter(|task| is_given_more(&task.execution)) {
        task.input = complete(store, &task.execution, task.input.clone()).await?;
    }
    add_history(store, &mut tasks).await?;
    Ok(tasks)
}
