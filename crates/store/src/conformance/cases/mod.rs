//! The cases, by what they are about.

mod changes;
mod commands;
mod counts;
mod events;
mod flow_pages;
mod graphs;
mod handles;
mod inbox;
mod log;
mod mail;
mod output;
mod pages;
mod payloads;
mod records;
mod registry;
mod removal;
mod sweep;
mod turns;
mod versions;
mod waitpoints;
mod windows;

use super::Case;

/// The one list of all cases, handed to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_conformance_case {
    ($callback:ident $arguments:tt) => {
        $crate::$callback! {
            $arguments
            versions::a_fresh_store_is_at_no_version_and_empty,
            versions::the_store_tells_its_time,
            versions::a_commit_is_guarded_by_number,
            versions::a_commit_is_guarded_by_the_id_of_the_one_before,
            versions::the_same_commit_is_not_applied_twice,
            versions::a_conflict_writes_nothing_of_any_table,
            versions::one_conflict_does_not_fail_the_others_of_its_flush,
            versions::a_chain_of_commits_can_be_sent_without_waiting,
            versions::an_empty_commit_makes_a_version,
            log::written_tells_who_wrote_a_version,
            log::written_is_kept_for_a_thousand_versions,
            changes::changes_come_with_the_records_as_they_are_now,
            changes::what_has_ended_is_told_by_its_id,
            changes::what_was_removed_has_changed_too,
            changes::changes_are_told_over_a_hundred_commits_and_ten_thousand_keys,
            turns::others_conflict_until_the_holder_of_the_turn_has_committed,
            turns::a_turn_stops_the_commits_of_other_handles,
            turns::a_turn_ends_with_its_time,
            turns::a_turn_is_neither_prolonged_nor_taken_away,
            versions::a_load_is_answered_at_one_version,
            versions::racing_commits_have_one_winner,
            versions::a_partition_that_does_not_exist_is_refused,
            records::every_state_of_an_execution_reads_back,
            records::an_update_replaces_what_changes,
            records::records_that_do_not_exist_are_told_apart,
            records::lanes_and_workers_read_back_and_go,
            records::links_and_messages_read_back,
            records::idempotency_keys_read_back_and_go,
            payloads::odd_text_reads_back,
            payloads::large_payloads_read_back,
            payloads::payloads_are_replaced,
            payloads::attempts_read_back_in_order,
            records::the_header_reads_back,
            records::leases_are_listed_while_they_stand,
            records::no_execution_is_above_the_newest,
            records::partitions_do_not_see_each_other,
            removal::a_purge_leaves_nothing,
            removal::a_purge_spares_the_neighbours,
            windows::ready_entries_come_in_order_and_in_pages,
            windows::ready_entries_of_other_lanes_and_classes_stay_out,
            windows::ready_ranks_may_be_negative_and_extreme,
            windows::ready_entries_move_and_go,
            windows::the_agenda_comes_in_order_and_in_pages,
            windows::the_agenda_never_splits_a_millisecond,
            windows::agenda_entries_move_and_go,
            windows::agenda_times_may_be_extreme,
            graphs::flows_read_back_and_go,
            graphs::edges_read_back_and_go,
            graphs::lists_of_a_graph_come_in_order_and_in_pages,
            graphs::a_sweep_finds_flows_that_are_old_enough,
            graphs::changes_of_a_graph_are_told,
            mail::signing_keys_read_back_and_go,
            mail::signals_read_back,
            mail::steps_read_back_in_order_and_are_replaced,
            mail::changes_of_streams_and_keys_are_told,
            mail::a_purge_takes_signals_steps_and_output_along,
            mail::what_belongs_to_nobody_is_found,
            registry::records_of_the_registry_read_back_and_go,
            registry::records_of_a_kind_come_in_the_order_of_their_ids,
            output::streams_read_back_and_go,
            output::frames_come_in_both_orders_and_in_pages,
            output::frames_are_trimmed_before_others_come,
            waitpoints::waitpoints_open_change_and_close,
            waitpoints::pages_of_waitpoints_cover_everything_in_both_orders,
            waitpoints::every_filter_of_waitpoints_is_applied,
            waitpoints::a_scan_of_waitpoints_is_bounded,
            sweep::a_sweep_finds_what_is_old_enough,
            sweep::a_sweep_is_bounded,
            sweep::a_sweep_tells_when_the_next_is_due,
            sweep::a_sweep_finds_old_events,
            events::events_read_back_without_gaps,
            events::events_come_in_pages,
            events::events_are_trimmed_from_the_front,
            events::the_first_event_since_a_time_is_found,
            counts::counters_equal_a_recount,
            counts::counters_at_zero_are_not_listed,
            counts::the_status_tells_where_partitions_stand,
            pages::pages_cover_everything_in_both_orders,
            pages::every_filter_is_applied,
            pages::a_scan_is_bounded,
            flow_pages::pages_of_flows_cover_everything_in_both_orders,
            flow_pages::every_filter_of_flows_is_applied,
            flow_pages::a_scan_of_flows_is_bounded,
            flow_pages::members_of_a_flow_are_found,
            inbox::posted_rows_are_seen_in_order,
            inbox::a_read_of_the_inbox_is_bounded,
            inbox::a_row_that_was_taken_is_gone_and_the_others_stay,
            inbox::a_conflict_takes_no_rows,
            inbox::dead_letters_keep_everything_with_the_reason,
            inbox::letters_are_reposted_as_they_were_and_dropped_for_good,
            inbox::rows_of_another_store_get_new_numbers_and_keep_their_order,
            inbox::every_posted_row_becomes_one_execution_or_one_dead_letter,
            handles::everything_survives_reopening,
            handles::two_handles_see_each_others_commits,
            handles::a_closed_handle_is_unavailable_and_others_go_on,
            handles::the_store_keeps_its_identity,
            handles::servers_beat_and_leave,
            handles::parcels_reach_whom_they_are_for,
            commands::a_life_decided_by_the_core_reads_back,
            commands::messages_between_partitions_arrive,
            commands::random_programs_end_like_on_the_reference,
            commands::random_programs_survive_reopening,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_case_table {
    (() $($module:ident :: $name:ident,)+) => {
        &[$(Case { name: stringify!($name), run: |stand| Box::pin($module::$name(stand)) }),+]
    };
}

/// Every case. Each runs on an empty store of its own.
pub const CASES: &[Case] = crate::for_each_conformance_case! { conformance_case_table () };
