//! Seeds that have found a defect in the core or the engine. Every run begins with them.
//!
//! What a seed draws changes when the simulator learns to do something new, so an old seed need not come by its defect
//! again; it stays, because what is near has been wrong before. A defect that matters has a test of its own beside this.

/// The seeds, with what each of them found.
pub const REGRESSIONS: &[(u64, &str)] = &[
    (1, "a repeated change was answered before its copies had arrived"),
    (2, "a window was refilled from before a commit"),
    (3, "a repeated change was answered before its copies had arrived"),
    (4, "a repeated change was answered before its copies had arrived"),
    (5, "a window was refilled from before a commit"),
    (6, "a window was refilled from before a commit"),
    (7, "an entry of a stream that others had changed was fired again"),
    (13, "a failed read of what was missed was forgotten"),
    (17, "a failed read of what was missed was forgotten"),
    (29, "a failed read of what was missed was forgotten"),
    (76, "a rejection was confirmed by a commit older than the question"),
    (101, "a sweep was hidden by a page that was read before a commit"),
    (189, "a partition that had not heard of the newest key swept all it had"),
    (279, "a sweep was hidden by a page that was read before a commit"),
    (1_120, "a flow was to be removed before a member that had run again and ended in one commit"),
    (1_569, "a flow was to be removed before a member that had run again and ended in one commit"),
    (5_077, "a child flow was revived without an event"),
    (6_491, "a result was not given to a member that waits again"),
];

/// The seeds alone.
pub fn seeds() -> impl Iterator<Item = u64> {
    REGRESSIONS.iter().map(|(seed, _)| *seed)
}
