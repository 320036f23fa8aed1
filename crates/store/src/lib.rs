//! What FlowFabric asks of a store, and the store that keeps everything in memory.
//!
//! A store is dumb. It keeps partitions, answers questions at one version, and applies a set of changes only
//! if the partition is still at the version they were decided on. It knows nothing of states and rules; a
//! store that contains an `if` about the state of an execution is wrong.
//!
//! | to read about | open |
//! |---|---|
//! | the contract | [`Store`] |
//! | the reference, with switches that make it fail | [`memory`] |
//! | the suite every store must pass, and the stores it must fail | [`conformance`] |
//! | time | [`clock`] |
//! | figures about the sizes of commits | [`histogram`] |

pub mod clock;
pub mod commit;
pub mod conformance;
pub mod error;
pub mod histogram;
pub mod memory;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use ff_core::attempt::Attempt;
use ff_core::class::Class;
use ff_core::event::Event;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::payload::{Payload, PayloadKey};
use ff_core::query::{
    CountKey, FlowPage, FlowPageAsk, FramePageAsk, Page, PageAsk, WaitpointPage, WaitpointPageAsk,
};
use ff_core::step::Step;
use ff_core::stream::Frame;
use ff_core::suspension::Signal;
use ff_core::workspace::Answer;
use ff_core::{CommitId, ExecutionId, LaneName, Ms, PartitionId, ServerId};

pub use clock::{Clock, ManualClock, SystemClock};
pub use commit::{Commit, Outcome, Version};
pub use error::StoreError;
pub use histogram::Histogram;
pub use memory::{Faults, MemoryState, MemoryStore};

/// What a store's method returns: the contract is used through `dyn Store`.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a store says of itself. It does not change while the store is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// `memory`, `sqlite`, …
    pub kind: &'static str,
    /// Distinguishes this store from every other; cursors carry it.
    pub id: uuid::Uuid,
    /// How many partitions it was initialised with.
    pub partitions: u16,
    /// How many flushes it can do at once. Commits of partitions with the same remainder by this number are worth
    /// sending together, and others worth sending apart.
    pub lines: u16,
}

/// The answers to a load, all read at one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub version: Version,
    /// The store's time.
    pub now: Ms,
    /// One for each ask, in order.
    pub answers: Vec<Answer>,
}

/// Where a partition stands, for servers that want to know what others did.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub partition: PartitionId,
    pub version: Version,
    pub next_event: u64,
    /// When the first agenda entry is due.
    pub next_due: Option<Ms>,
    /// How many entries are ready, by lane and class; none with zero.
    pub ready: Vec<(LaneName, Class, u64)>,
    /// Whether rows wait in the inbox.
    pub inbox: bool,
}

/// Over how many commits [`Ask::Changes`] tells apart what has changed.
pub const COMMITS_TOLD: usize = 100;
/// How many changed records [`Ask::Changes`] answers with at most.
pub const KEYS_TOLD: usize = 10_000;

/// Who wrote a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nobody yet.
    Not,
    By(CommitId),
    /// Its row is gone; it was written, but by whom is not known any more.
    Forgotten,
}

/// What is kept of an execution beside its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trace {
    Frames,
    Signals,
    Steps,
    Stream,
}

impl Trace {
    pub const ALL: [Trace; 4] = [Trace::Frames, Trace::Signals, Trace::Steps, Trace::Stream];

    pub fn word(self) -> &'static str {
        match self {
            Trace::Frames => "frames",
            Trace::Signals => "signals",
            Trace::Steps => "steps",
            Trace::Stream => "stream",
        }
    }

    pub fn from_word(word: &str) -> Option<Trace> {
        Trace::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// What one server has for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The name under which the other one serves the store.
    pub to: String,
    pub text: String,
}

/// How long a parcel is kept for a server that does not take it.
pub const PARCEL_MS: Ms = 2_000;

/// Events of one partition in order.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// The number of the oldest event that is kept, or of the next one if none is.
    pub oldest: u64,
    /// The number the next event will get.
    pub next: u64,
}

/// A keeper of partitions.
///
/// Every method either answers or fails with a [`StoreError`] that says whether trying again can help. None
/// waits for anything but the store itself. All of it must hold for any number of partitions and for several
/// processes on one store.
pub trait Store: Send + Sync + Debug {
    /// What this store is.
    fn info(&self) -> StoreInfo;

    /// Answers all asks of one partition at ONE version. [`Ask::Changes`] is answered with `None` if it is about
    /// more than [`COMMITS_TOLD`] commits or [`KEYS_TOLD`] records, or about commits that are not kept any more
    /// or not made yet.
    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>>;

    /// Applies the changes of several partitions in one flush, each only if its partition is still at the
    /// version expected, and each alone: one that conflicts does not fail the others. When it answers
    /// [`Outcome::Committed`], the changes survive a crash. Commits of one partition are applied in the order
    /// given, also a chain of which each expects the one before. Within one set of changes removals come
    /// before additions, because one record may take the place that another leaves.
    ///
    /// Rows of the inbox do not come through here: applications write them beside the engine, in transactions
    /// of their own and without a new version. A commit removes the rows that it names and no others, so that
    /// what was posted meanwhile is found by the next load.
    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>>;

    /// Writes rows into the inbox as an application does, in the order given and under numbers of the store's own,
    /// whatever numbers they have. Each has an id. Only a store that takes over the rows of another one is asked for it.
    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>>;

    /// Who wrote version `number` of a partition. Kept for at least an hour and 1,000 versions.
    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>>;

    /// Gives a server the turn of a partition: until it has committed there once, and for `for_ms` at most,
    /// the commits of all others conflict. It is data, not a lock: the commit of its holder removes it, and one
    /// that is over counts as absent. Answers whether the turn is this server's now; asking again while it is
    /// prolongs nothing, and another's that is not over is not taken away.
    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>>;

    /// Where every partition stands, in the order of their numbers, and the store's time. Cheap: it is read
    /// many times a second.
    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>>;

    /// Payloads, in the order asked for; `None` where there is none. They never change, so no version.
    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>>;

    /// The archived attempts of an execution, oldest first; the newest attempt is in its record.
    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>>;

    /// The recorded steps of executions, by execution as asked for and then by number. A step is never changed
    /// but by itself, so no version.
    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>>;

    /// Signals by execution and number, in the order asked for; `None` where there is none. They never change.
    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>>;

    /// Frames of one attempt that are kept, in the order asked for.
    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>>;

    /// Executions that are not there and of which something is kept all the same: each once for each kind of trace,
    /// at most `limit` of them, ordered by the word of the trace and then by id. It looks at everything that is kept.
    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>>;

    /// A page of open waitpoints of all partitions, in the order of their ids.
    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>>;

    /// A page of executions of all partitions, in the order of their ids.
    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>>;

    /// A page of flows of all partitions, in the order of their ids.
    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>>;

    /// Exact counts of all executions, summed over partitions; none with zero.
    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>>;

    /// Events with numbers from `from` on, at most about `limit`, without gaps.
    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>>;

    /// The number of the first event at or after a time, or of the next event if there is none.
    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>>;

    /// This process serves the store under this name: said first when it begins, and again every second as a
    /// sign of life. Answers the names of all servers that are alive, this one included, in order. A store that
    /// can tell when a process has ended need not count the seconds.
    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>>;

    /// Servers that gave a sign of life, did not leave, and have provably ended.
    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>>;

    /// Leaves parcels for other servers and takes those that have come for this one, each once. Nothing depends on
    /// them: a parcel need not survive a crash, and one that is not taken within [`PARCEL_MS`] is gone.
    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>>;

    /// Forgets a server: it leaves by itself, or its end has been dealt with.
    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>>;

    /// Ends all work of this handle; what was committed stays. Later calls fail as unavailable.
    fn close(&self) -> Soon<'_, ()>;
}
