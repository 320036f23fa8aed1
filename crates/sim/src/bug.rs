//! Defects that can be switched on, to prove that the checkers would find them.

use ff_engine::config::Bug as MachineBug;

macro_rules! bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $($(#[$doc])* $variant),+ }

        impl Bug {
            pub const ALL: &'static [Bug] = &[$(Bug::$variant),+];

            pub fn name(self) -> &'static str {
                match self { $(Bug::$variant => $name),+ }
            }
        }
    };
}

bugs!(
    /// The store applies a commit whatever version it was decided on.
    NoVersionCheck = "no-version-check",
    /// A worker's call counts for whatever lease stands now.
    NoEpochCheck = "no-epoch-check",
    ReplyBeforeCommit = "reply-before-commit",
    /// A full page of ready entries loses its last one and so passes for the end of the queue.
    WindowOffByOne = "window-off-by-one",
    /// Agenda entries stay behind.
    TimerNotDeleted = "timer-not-deleted",
    CommitIdIgnored = "commit-id-ignored",
    /// Idempotency keys are not written.
    DedupDropped = "dedup-dropped",
    StaleRejection = "stale-rejection",
    /// A posted row stays in the inbox when it becomes an execution.
    RowNotRemoved = "row-not-removed",
    RowsSurviveConflict = "rows-survive-conflict",
    /// Commits of others pass in a server's turn.
    TurnIgnored = "turn-ignored",
    /// An edge that is read again has forgotten that it was counted, so a step that is repeated counts it twice.
    DoubleCascade = "double-cascade",
);

impl Bug {
    pub fn from_name(name: &str) -> Option<Bug> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }

    /// The defects that live inside the machine.
    pub(crate) fn in_machine(self) -> Option<MachineBug> {
        match self {
            Bug::ReplyBeforeCommit => Some(MachineBug::ReplyBeforeCommit),
            Bug::CommitIdIgnored => Some(MachineBug::CommitIdIgnored),
            Bug::StaleRejection => Some(MachineBug::StaleRejection),
            Bug::RowsSurviveConflict => Some(MachineBug::RowsSurviveConflict),
            _ => None,
        }
    }
}
