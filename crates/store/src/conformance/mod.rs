//! The suite every store must pass, and stores broken on purpose, which it must fail.
//!
//! A case gets a [`Stand`]: an empty store, a clock that it moves by hand, and beside it the memory store as
//! the reference. It answers `Ok` or says in words what was wrong. Nothing in here sleeps or knows a store.
//!
//! To put a store on the stand, write a [`Factory`] and, in a test file of its crate, one line:
//!
//! ```ignore
//! ff_store::conformance_tests!(MyFactory::default());
//! ```
//!
//! It expands to one test for each case and each number of partitions in 1, 3 and 8.

pub mod broken;
mod cases;
mod differential;
mod dump;
mod engine;
mod graph_samples;
mod mail_dump;
mod mail_samples;
mod program;
mod registry_samples;
mod samples;
mod stand;

pub use cases::CASES;
pub use differential::differ;
pub use dump::Dump;
pub use stand::Stand;

use std::sync::Arc;

use ff_core::inbox::Posted;

use crate::{ManualClock, MemoryStore, Soon, Store};

/// What a case found: nothing, or what was wrong.
pub type Check = Result<(), String>;

/// With how many partitions every case runs.
pub const PARTITIONS: [u16; 3] = [1, 3, 8];

/// Makes empty stores for the suite.
pub trait Factory: Send + Sync {
    /// Prepares a place for one empty store with so many partitions, on this clock.
    fn site(&self, partitions: u16, clock: Arc<ManualClock>) -> Soon<'_, Result<Box<dyn Site>, String>>;
}

/// Where one store lives: a file, a database, a piece of memory. Dropping it removes the store.
pub trait Site: Send + Sync {
    /// Opens a handle. While another is open, this one is a second handle on the same store, as another
    /// process would have; after all were closed, it finds what is durable.
    fn open(&self) -> Soon<'_, Result<Arc<dyn Store>, String>>;

    /// Writes a row into the inbox, the way an application does: not through a handle of the store, and with
    /// everything in it that the row says, its number too. The row has an id.
    fn post(&self, posted: Posted) -> Soon<'_, Result<(), String>>;
}

/// One thing that a store must do.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub run: for<'a> fn(&'a mut Stand) -> Soon<'a, Check>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// Runs the case on a store of its own.
    pub async fn check(&self, factory: &dyn Factory, partitions: u16) -> Check {
        let mut stand = Stand::new(factory, partitions).await?;
        (self.run)(&mut stand).await
    }
}

/// Runs every case with every number of partitions and returns what failed, each with its name.
pub async fn run_all(factory: &dyn Factory) -> Vec<(&'static str, u16, String)> {
    let mut failed = Vec::new();
    for case in CASES {
        for partitions in PARTITIONS {
            if let Err(problem) = case.check(factory, partitions).await {
                failed.push((case.name, partitions, problem));
            }
        }
    }
    failed
}

/// Runs one case to its end on a runtime of its own.
///
/// # Panics
/// If the store does not pass; the message says why.
pub fn run_one(factory: &dyn Factory, name: &str, partitions: u16) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime needs only threads");
    let case = CASES.iter().find(|case| case.name == name).expect("the macro lists the cases of the table");
    if let Err(problem) = runtime.block_on(case.check(factory, partitions)) {
        panic!("{name} with {partitions} partitions: {problem}");
    }
}

/// The memory store on the stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFactory;

struct MemorySite(MemoryStore);

impl Factory for MemoryFactory {
    fn site(&self, partitions: u16, clock: Arc<ManualClock>) -> Soon<'_, Result<Box<dyn Site>, String>> {
        Box::pin(async move {
            let site: Box<dyn Site> = Box::new(MemorySite(MemoryStore::with_clock(partitions, clock)));
            Ok(site)
        })
    }
}

impl Site for MemorySite {
    fn open(&self) -> Soon<'_, Result<Arc<dyn Store>, String>> {
        Box::pin(async move {
            let store: Arc<dyn Store> = Arc::new(self.0.another());
            Ok(store)
        })
    }

    fn post(&self, posted: Posted) -> Soon<'_, Result<(), String>> {
        Box::pin(async move {
            self.0.post(posted);
            Ok(())
        })
    }
}

/// One test for each case of the suite and each number of partitions, over the stores of a [`Factory`].
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::for_each_conformance_case! { conformance_test_list ($factory) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test_list {
    (($factory:expr) $($module:ident :: $name:ident,)+) => {
        mod conformance {
            #[allow(unused_imports)]
            use super::*;
            $(mod $name {
                #[allow(unused_imports)]
                use super::*;

                #[test]
                fn p1() {
                    $crate::conformance::run_one(&$factory, stringify!($name), 1);
                }

                #[test]
                fn p3() {
                    $crate::conformance::run_one(&$factory, stringify!($name), 3);
                }

                #[test]
                fn p8() {
                    $crate::conformance::run_one(&$factory, stringify!($name), 8);
                }
            })+
        }
    };
}

/// Fails a case unless something holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}
pub(crate) use ensure;

/// Fails a case unless two values are equal; the message says what they are.
macro_rules! ensure_eq {
    ($got:expr, $want:expr, $($what:tt)+) => {{
        let (got, want) = (&$got, &$want);
        if got != want {
            return Err(format!("{}: got {:.2000?}, want {:.2000?}", format_args!($($what)+), got, want));
        }
    }};
}
pub(crate) use ensure_eq;
