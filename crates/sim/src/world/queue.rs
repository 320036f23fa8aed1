//! Everything that is on its way, in the order in which it will happen.

use std::collections::BTreeMap;

use ff_core::Ms;
use ff_core::key::Ask;
use ff_core::{PartitionId, Reply, ServerId};
use ff_engine::Failure;
use ff_engine::machine::{Input, Line, LoadToken};
use ff_store::Commit;

use super::call::CallId;
use crate::rng::Rng;

// A few dozen exist at a time.
#[expect(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Request {
    Load { token: LoadToken, asks: Vec<Ask> },
    Commit(Commit),
    Written { partition: PartitionId, number: u64 },
    Turn { partition: PartitionId, server: ServerId, for_ms: Ms },
    Status,
}

/// One life of a server process: what was sent to an earlier life is not for this one.
pub type Life = u32;

#[derive(Debug)]
pub enum Happening {
    StoreHears {
        server: usize,
        life: Life,
        request: Request,
    },
    /// A commit whose server was told that nobody knows what became of it.
    LateCommit(Commit),
    ServerHears {
        server: usize,
        life: Life,
        input: Input,
    },
    /// What one server has for another.
    ErrandsArrive {
        to: String,
        from: String,
        lines: Vec<Line>,
    },
    ServerTurns {
        server: usize,
        life: Life,
    },
    ServerLooksAround {
        server: usize,
        life: Life,
    },
    ServerStarts {
        server: usize,
    },
    CallArrives {
        call: CallId,
        server: usize,
    },
    ReplyArrives {
        call: CallId,
        result: Result<Reply, Failure>,
    },
    CallTimesOut {
        call: CallId,
    },
    ClientWakes {
        client: usize,
    },
    WorkerWakes {
        worker: usize,
        life: u32,
    },
    /// Somebody who builds and changes flows.
    FlowClientWakes,
    ApplicationPosts,
    SubscriberReads,
    Trouble,
    /// After the faults: somebody opens lanes and lets go of what is held.
    AdminLooks,
}

#[derive(Debug, Default)]
pub struct Queue {
    list: BTreeMap<(Ms, u32, u64), Happening>,
    number: u64,
}

impl Queue {
    /// Things that happen in the same millisecond happen in any order.
    pub fn add(&mut self, rng: &mut Rng, at: Ms, what: Happening) {
        self.number += 1;
        self.list.insert((at, rng.draw() as u32, self.number), what);
    }

    pub fn next(&mut self) -> Option<(Ms, Happening)> {
        self.list.pop_first().map(|((at, ..), what)| (at, what))
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Happening) -> bool) {
        self.list.retain(|_, what| keep(what));
    }
}
