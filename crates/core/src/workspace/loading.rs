//! What loads bring, and what is thrown away.

use super::{Answer, Lists, Marks, Opening, Workspace};

impl Workspace {
    /// Takes in what a load has brought.
    pub fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::Execution(id, execution) => self.executions.learn(id, execution),
            Answer::Dedup(key, dedup) => self.dedup.learn(key, dedup),
            Answer::Lane(name, lane) => self.lanes.learn(name, lane),
            Answer::Worker(id, worker) => self.workers.learn(id, worker),
            Answer::Flow(id, flow) => self.flows.learn(id, flow),
            Answer::Edge(key, edge) => self.edges.learn(key, edge),
            Answer::Stream(id, stream) => self.streams.learn(id, stream),
            Answer::SigningKey(id, key) => self.signing_keys.learn(id, key),
            Answer::Opening(opening) => self.open(*opening),
            Answer::Ready { lane, class, limit, entries, executions } => {
                for execution in executions {
                    self.executions.learn(execution.id, Some(execution));
                }
                if let Some(window) = self.ready.window_mut(&lane, &class) {
                    window.finish_refill(&entries, limit);
                }
                self.amend_ready(&lane, &class, &entries);
            }
            Answer::List { list, after, limit, entries, edges, executions } => {
                executions.into_iter().for_each(|it| self.executions.learn(it.id, Some(it)));
                edges.into_iter().for_each(|it| self.edges.learn(it.key, Some(it)));
                self.learn_list(list, after, limit, &entries);
            }
            Answer::Agenda { entries, reached } => {
                self.agenda.finish_refill(entries, reached);
                self.amend_agenda();
            }
            // Messages are read with the agenda, and what was missed is caught up with before anything is decided.
            Answer::Message(..) | Answer::Changes(_) => {}
            Answer::Sweep(page) => self.sweep_page = Some(page),
            Answer::DeadLetters { after, letters } => {
                let asked = after.saturating_add(1);
                let found = letters.first().filter(|letter| letter.posted.number == asked);
                self.letters.learn(asked, found.map(|letter| letter.posted.head()));
            }
            Answer::Registry { kind, id, records } => self.learn_records(kind, id, records),
            // No records to decide on: whoever asked makes commands of them.
            Answer::Inbox(_) => {}
        }
    }

    pub(super) fn open(&mut self, opening: Opening) {
        self.header = opening.header;
        self.header_at_batch = opening.header;
        self.links.clear();
        self.lanes.clear();
        self.workers.clear();
        self.signing_keys.clear();
        self.letters.clear();
        self.forget_registry();
        self.leases.clear();
        for link in opening.links {
            self.links.learn(link.peer, Some(link));
        }
        for lane in opening.lanes {
            self.lanes.learn(lane.name.clone(), Some(lane));
        }
        for worker in opening.workers {
            self.workers.learn(worker.instance, Some(worker));
        }
        for key in opening.signing_keys {
            self.signing_keys.learn(key.id, Some(key));
        }
        for (instance, execution) in opening.leases {
            self.leases.entry(instance).or_default().insert(execution);
        }
        self.ready.reset(opening.ready_counts);
        self.agenda.reset();
        self.newest.open(opening.newest);
        self.sweep_page = None;
        self.opened = true;
    }

    /// Forgets everything: it is not known what has changed. The partition must be opened again.
    pub fn forget_all(&mut self) {
        self.executions.clear();
        self.newest.close();
        self.resting.clear();
        self.dedup.clear();
        self.letters.clear();
        self.forget_registry();
        self.flows.clear();
        self.edges.clear();
        self.streams.clear();
        self.graph.clear();
        self.todo.clear();
        self.lists = Lists::default();
        self.marks = Marks::default();
        self.recent.clear();
        self.batch_sweep_by = None;
        self.opened = false;
    }

    /// Keeps the cache near its size. Only between batches, with no load under way, and only for records
    /// whose last change is committed (`settled` is the newest committed batch). Call it whenever a
    /// commit has landed: it also forgets which batches were not known to be stored, and until then each
    /// sweep plans another one for them.
    pub fn evict(&mut self, settled: u64, executions_max: usize, resting_max: usize, window_max: usize) {
        if self.sweep_page.is_none() {
            self.recent.settle(settled);
        }
        self.evict_resting(settled, resting_max);
        if self.executions.len() > executions_max {
            self.executions.evict(settled, executions_max / 2, |it| it.is_over());
            self.ready.forget_empty();
        }
        self.newest.shrink(executions_max / 4);
        if self.dedup.len() > executions_max {
            self.dedup.evict(settled, executions_max / 2, |_| true);
        }
        if self.streams.len() > executions_max {
            self.streams.evict(settled, executions_max / 2, |_| true);
        }
        self.letters.evict(settled, 0, |_| true);
        self.evict_registry(settled, executions_max);
        self.evict_graph(settled, executions_max);
        for (_, _, window) in self.ready.windows_mut() {
            if window.len() > window_max * 4 {
                window.shrink(window_max * 2);
            }
        }
        if self.agenda.len() > window_max * 4 {
            self.agenda.shrink(window_max * 2);
        }
    }
}
