//! What goes wrong in a run, and how often it did.

macro_rules! faults {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault { $($variant),+ }

        impl Fault {
            pub const ALL: &'static [Fault] = &[$(Fault::$variant),+];

            pub fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name),+ }
            }
        }
    };
}

faults!(
    MessageLost = "message lost",
    MessageLate = "message late",
    MessageDoubled = "message doubled",
    StoreLate = "store request or answer late",
    Conflict = "conflict forced",
    AnswerLost = "committed, answer lost",
    CommitLost = "commit lost",
    CommitLate = "commit executed after its outcome was called unknown",
    Unavailable = "store unavailable",
    Outage = "store outage",
    Refused = "batch refused",
    LoadFailed = "load failed",
    Crash = "server crash",
    ClockJump = "store clock jump",
    WorkerPause = "worker paused",
    WorkerKill = "worker killed",
    StaleFence = "stale fence used",
    FarServer = "server far from the store",
    StoreMoved = "store copied into another one",
);

/// How often each fault happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally([u64; Fault::ALL.len()]);

impl Default for Tally {
    fn default() -> Self {
        Tally([0; Fault::ALL.len()])
    }
}

impl Tally {
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine += more);
    }

    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.iter().map(|fault| (*fault, self.0[*fault as usize]))
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
