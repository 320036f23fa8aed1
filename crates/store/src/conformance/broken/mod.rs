//! Stores broken on purpose: each has one bug that real stores have had, and the suite must fail each.
//!
//! They are the memory store with one thing done wrong on the way in, on the way out, or in between. Every
//! bug names the case that must notice it; a suite in which that case is deleted does not pass its own test.

mod commits;
mod mail;
mod reads;
mod registry;
mod store;
mod turns;

use std::sync::Arc;

use ff_core::inbox::Posted;

use super::{Factory, Site};
use crate::{ManualClock, MemoryStore, Soon, Store};

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident => $case:ident,)+) => {
        /// What is wrong with a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $($(#[$doc])* $name),+ }

        impl Bug {
            pub const ALL: &'static [Bug] = &[$(Bug::$name),+];

            /// The case that must notice it.
            pub fn noticed_by(self) -> &'static str {
                match self { $(Bug::$name => stringify!($case)),+ }
            }
        }
    };
}

bugs! {
    // The guard.
    NoVersionCheck => a_commit_is_guarded_by_number,
    IdNotChecked => a_commit_is_guarded_by_the_id_of_the_one_before,
    ConflictWritesExecutions => a_conflict_writes_nothing_of_any_table,
    ConflictWritesEvents => a_conflict_writes_nothing_of_any_table,
    ConflictMovesCounters => a_conflict_writes_nothing_of_any_table,
    OneConflictFailsAll => one_conflict_does_not_fail_the_others_of_its_flush,
    /// A commit that was there before succeeds again instead of conflicting.
    RepeatSucceeds => the_same_commit_is_not_applied_twice,
    EmptyCommitMakesNoVersion => an_empty_commit_makes_a_version,
    LoadAtTwoVersions => a_load_is_answered_at_one_version,
    /// Two commits race because the version is read before it is written.
    CheckBeforeWrite => racing_commits_have_one_winner,
    ClockStandsStill => the_store_tells_its_time,
    TurnIgnored => others_conflict_until_the_holder_of_the_turn_has_committed,
    TurnOutlivesItsCommit => others_conflict_until_the_holder_of_the_turn_has_committed,
    TurnStopsAllPartitions => others_conflict_until_the_holder_of_the_turn_has_committed,
    TurnKnownToItsHandleOnly => a_turn_stops_the_commits_of_other_handles,
    TurnNeverEnds => a_turn_ends_with_its_time,
    TurnProlonged => a_turn_is_neither_prolonged_nor_taken_away,
    TurnTakenAway => a_turn_is_neither_prolonged_nor_taken_away,
    // What is written.
    ForgetsAgendaRemovals => agenda_entries_move_and_go,
    ForgetsReadyRemovals => ready_entries_move_and_go,
    ForgetsEndedRemovals => a_sweep_is_bounded,
    AddsBeforeItRemoves => ready_entries_move_and_go,
    MessageDropped => messages_between_partitions_arrive,
    LinkNotUpdated => links_and_messages_read_back,
    DedupDropped => idempotency_keys_read_back_and_go,
    DedupNotRemoved => idempotency_keys_read_back_and_go,
    HeaderLosesSweep => the_header_reads_back,
    HeaderLosesTime => the_header_reads_back,
    PayloadNotReplaced => payloads_are_replaced,
    PayloadCut => large_payloads_read_back,
    AttemptsDropped => attempts_read_back_in_order,
    LanesNotRemoved => lanes_and_workers_read_back_and_go,
    WorkersNotRemoved => lanes_and_workers_read_back_and_go,
    TextTrimmed => odd_text_reads_back,
    OptionalFieldDropped => every_state_of_an_execution_reads_back,
    UpdateKeepsTags => an_update_replaces_what_changes,
    CountNotLowered => counters_equal_a_recount,
    ReadyCountNotLowered => counters_at_zero_are_not_listed,
    EventsWithGap => events_read_back_without_gaps,
    TrimIgnored => events_are_trimmed_from_the_front,
    TrimOffByOne => events_are_trimmed_from_the_front,
    PurgeLeavesPayload => a_purge_leaves_nothing,
    PurgeLeavesAttempts => a_purge_leaves_nothing,
    PurgeTakesTheNeighbour => a_purge_spares_the_neighbours,
    // Graphs.
    FlowNotRemoved => flows_read_back_and_go,
    FlowKeepsItsRevision => flows_read_back_and_go,
    EdgeNotCounted => edges_read_back_and_go,
    EdgeNotRemoved => edges_read_back_and_go,
    EdgesWithoutDirection => edges_read_back_and_go,
    ListIncludesItsStart => lists_of_a_graph_come_in_order_and_in_pages,
    ListOrderedById => lists_of_a_graph_come_in_order_and_in_pages,
    ListWithoutExecutions => lists_of_a_graph_come_in_order_and_in_pages,
    SweepForgetsFlows => a_sweep_finds_flows_that_are_old_enough,
    SweepOfFlowsWithoutLimit => a_sweep_finds_flows_that_are_old_enough,
    ChangesForgetEdges => changes_of_a_graph_are_told,
    ChangesForgetFlows => changes_of_a_graph_are_told,
    // What arrives for executions and what they leave behind.
    SigningKeyNotRemoved => signing_keys_read_back_and_go,
    SigningKeyNotReplaced => signing_keys_read_back_and_go,
    OpeningForgetsSigningKeys => signing_keys_read_back_and_go,
    SignalsDropped => signals_read_back,
    SignalsOutOfOrder => signals_read_back,
    SignalWithoutCorrelation => signals_read_back,
    StepNotReplaced => steps_read_back_in_order_and_are_replaced,
    /// A step that is recorded again stands beside itself.
    StepInsertedTwice => steps_read_back_in_order_and_are_replaced,
    StepsOrderedByName => steps_read_back_in_order_and_are_replaced,
    ChangesForgetStreams => changes_of_streams_and_keys_are_told,
    ChangesForgetSigningKeys => changes_of_streams_and_keys_are_told,
    PurgeLeavesSignals => a_purge_takes_signals_steps_and_output_along,
    PurgeLeavesSteps => a_purge_takes_signals_steps_and_output_along,
    PurgeLeavesStream => a_purge_takes_signals_steps_and_output_along,
    PurgeLeavesFrames => a_purge_takes_signals_steps_and_output_along,
    /// What is removed with an execution takes what was made anew under its id along.
    PurgeAfterAdding => a_purge_takes_signals_steps_and_output_along,
    FramesOfNobodyHidden => what_belongs_to_nobody_is_found,
    StreamNotRemoved => streams_read_back_and_go,
    StreamLosesItsSummary => streams_read_back_and_go,
    FramesOfAllAttempts => frames_come_in_both_orders_and_in_pages,
    FrameOrderIgnored => frames_come_in_both_orders_and_in_pages,
    FramePageIncludesItsStart => frames_come_in_both_orders_and_in_pages,
    FramesIgnoreBytes => frames_come_in_both_orders_and_in_pages,
    NoFrameWithoutRoom => frames_come_in_both_orders_and_in_pages,
    FramesNotTrimmed => frames_are_trimmed_before_others_come,
    FramesOfAllModesTrimmed => frames_are_trimmed_before_others_come,
    FramesTrimmedAfterAdding => frames_are_trimmed_before_others_come,
    WaitpointNotRemoved => waitpoints_open_change_and_close,
    WaitpointKeepsItsReason => waitpoints_open_change_and_close,
    WaitpointPageIncludesItsStart => pages_of_waitpoints_cover_everything_in_both_orders,
    WaitpointPageOrderIgnored => pages_of_waitpoints_cover_everything_in_both_orders,
    WaitpointFilterIgnoresTheName => every_filter_of_waitpoints_is_applied,
    WaitpointFilterIgnoresTheExecution => every_filter_of_waitpoints_is_applied,
    WaitpointScanWithoutBound => a_scan_of_waitpoints_is_bounded,
    // The registry.
    RecordNotRemoved => records_of_the_registry_read_back_and_go,
    RecordNotReplaced => records_of_the_registry_read_back_and_go,
    RecordsOfAllKinds => records_of_the_registry_read_back_and_go,
    RecordsOfAllPartitions => records_of_the_registry_read_back_and_go,
    RecordsInAnyOrder => records_of_a_kind_come_in_the_order_of_their_ids,
    ConflictWritesRecords => a_conflict_writes_nothing_of_any_table,
    // What is read.
    ReadyIncludesItsStart => ready_entries_come_in_order_and_in_pages,
    ReadySkipsOne => ready_entries_come_in_order_and_in_pages,
    ReadyOrderedByNumberOnly => ready_entries_come_in_order_and_in_pages,
    ReadyRankWithoutSign => ready_ranks_may_be_negative_and_extreme,
    ReadyWithoutExecutions => ready_entries_come_in_order_and_in_pages,
    ReadyMixesClasses => ready_entries_of_other_lanes_and_classes_stay_out,
    AgendaSplitsMillisecond => the_agenda_never_splits_a_millisecond,
    AgendaClaimsToBeWhole => the_agenda_comes_in_order_and_in_pages,
    AgendaIncludesItsStart => the_agenda_comes_in_order_and_in_pages,
    AgendaTimeIsFloat => agenda_times_may_be_extreme,
    OpeningForgetsLeases => leases_are_listed_while_they_stand,
    OpeningForgetsTheNewest => no_execution_is_above_the_newest,
    OpeningForgetsLanes => lanes_and_workers_read_back_and_go,
    SweepWithoutLimit => a_sweep_is_bounded,
    SweepTooEager => a_sweep_finds_what_is_old_enough,
    SweepForgetsNext => a_sweep_tells_when_the_next_is_due,
    SweepTakesOneEventMore => a_sweep_finds_old_events,
    AnswersOutOfOrder => records_that_do_not_exist_are_told_apart,
    PartitionsMixed => partitions_do_not_see_each_other,
    // The inbox.
    PostedRowsInAnyOrder => posted_rows_are_seen_in_order,
    StatusIgnoresTheInbox => posted_rows_are_seen_in_order,
    InboxOfAllPartitions => posted_rows_are_seen_in_order,
    InboxWithoutLimit => a_read_of_the_inbox_is_bounded,
    InboxIgnoresBytes => a_read_of_the_inbox_is_bounded,
    TakenRowStays => a_row_that_was_taken_is_gone_and_the_others_stay,
    /// A commit clears the inbox instead of removing what it names.
    TakesRowsPostedMeanwhile => a_row_that_was_taken_is_gone_and_the_others_stay,
    ConflictTakesRows => a_conflict_takes_no_rows,
    DeadLetterDropped => dead_letters_keep_everything_with_the_reason,
    DeadLetterLosesContent => dead_letters_keep_everything_with_the_reason,
    DeadLetterStaysPosted => dead_letters_keep_everything_with_the_reason,
    RepostedLetterIsLost => letters_are_reposted_as_they_were_and_dropped_for_good,
    RowsPostedUnderTheirOwnNumbers => rows_of_another_store_get_new_numbers_and_keep_their_order,
    PostedRowsReversed => rows_of_another_store_get_new_numbers_and_keep_their_order,
    DroppedLetterStays => letters_are_reposted_as_they_were_and_dropped_for_good,
    // What is asked about.
    WrittenForgets => written_tells_who_wrote_a_version,
    ChangesForgetKeys => changes_come_with_the_records_as_they_are_now,
    ChangesForgetMessages => changes_come_with_the_records_as_they_are_now,
    ChangesWithOldHeader => changes_come_with_the_records_as_they_are_now,
    ChangesWithoutCounts => changes_come_with_the_records_as_they_are_now,
    ChangesForgetEndings => what_has_ended_is_told_by_its_id,
    ChangesWithoutRemovals => what_was_removed_has_changed_too,
    ChangesNeverGiveUp => changes_are_told_over_a_hundred_commits_and_ten_thousand_keys,
    StatusIsLate => the_status_tells_where_partitions_stand,
    PageIncludesItsStart => pages_cover_everything_in_both_orders,
    PageOrderIgnored => pages_cover_everything_in_both_orders,
    FilterIgnoresTags => every_filter_is_applied,
    FilterTextIsCaseSensitive => every_filter_is_applied,
    FilterIgnoresTheFlow => members_of_a_flow_are_found,
    ScanWithoutBound => a_scan_is_bounded,
    FlowPageIncludesItsStart => pages_of_flows_cover_everything_in_both_orders,
    FlowPageOrderIgnored => pages_of_flows_cover_everything_in_both_orders,
    FlowFilterIgnoresTags => every_filter_of_flows_is_applied,
    FlowFilterIgnoresTheState => every_filter_of_flows_is_applied,
    FlowScanWithoutBound => a_scan_of_flows_is_bounded,
    CountsListZero => counters_at_zero_are_not_listed,
    EventsStartOneLate => events_come_in_pages,
    FirstEventOneLate => the_first_event_since_a_time_is_found,
    PayloadsOutOfOrder => payloads_are_replaced,
    // Handles.
    NewestCommitLostOnClose => everything_survives_reopening,
    HandleCachesForEver => two_handles_see_each_others_commits,
    CloseIgnored => a_closed_handle_is_unavailable_and_others_go_on,
    IdentityChanges => the_store_keeps_its_identity,
    LivingServersAreGone => servers_beat_and_leave,
    ServersKnowOnlyThemselves => servers_beat_and_leave,
    ParcelsAreLost => parcels_reach_whom_they_are_for,
    ParcelsGoToAnybody => parcels_reach_whom_they_are_for,
    ParcelsAreTakenTwice => parcels_reach_whom_they_are_for,
    ServersThatLeftAreAlive => servers_beat_and_leave,
}

/// Makes stores with one bug, or with none.
#[derive(Clone, Copy, Debug)]
pub struct BrokenFactory(pub Option<Bug>);

struct BrokenSite {
    store: MemoryStore,
    bug: Option<Bug>,
}

impl Factory for BrokenFactory {
    fn site(&self, partitions: u16, clock: Arc<ManualClock>) -> Soon<'_, Result<Box<dyn Site>, String>> {
        let store = MemoryStore::with_clock(partitions, clock);
        let site: Box<dyn Site> = Box::new(BrokenSite { store, bug: self.0 });
        Box::pin(async move { Ok(site) })
    }
}

impl Site for BrokenSite {
    fn open(&self) -> Soon<'_, Result<Arc<dyn Store>, String>> {
        Box::pin(async move {
            let store: Arc<dyn Store> = Arc::new(store::BrokenStore::new(self.store.another(), self.bug));
            Ok(store)
        })
    }

    fn post(&self, posted: Posted) -> Soon<'_, Result<(), String>> {
        Box::pin(async move {
            self.store.post(posted);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::CASES;
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_suite_fails_every_broken_store() {
        let mut missed = Vec::new();
        for bug in Bug::ALL {
            let case = CASES.iter().find(|case| case.name == bug.noticed_by()).expect("the case exists");
            if case.check(&BrokenFactory(Some(*bug)), 3).await.is_ok() {
                missed.push((bug, case.name));
            }
        }
        assert!(missed.is_empty(), "not noticed: {missed:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_a_bug_the_same_store_passes() {
        for case in CASES {
            assert_eq!(case.check(&BrokenFactory(None), 3).await, Ok(()), "{}", case.name);
        }
    }
}
