//! The statements, each from its own file.

macro_rules! statements {
    ($folder:literal: $($name:ident)+) => {
        $(#[allow(non_upper_case_globals)]
        pub(crate) const $name: &str =
            include_str!(concat!("../sql/", $folder, "/", stringify!($name), ".sql"));)+

        /// All of this folder, with their names.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),+];
    };
}

pub(crate) mod write {
    statements!("write":
        add_count add_ready_count delete_agenda delete_attempts delete_dead_letter delete_dedup delete_edge
        delete_ended delete_events_below delete_execution delete_flow delete_frames delete_frames_below
        delete_frames_older delete_lane delete_parcels delete_payloads delete_posted delete_ready delete_record delete_server delete_signals
        delete_signing_key delete_steps delete_stream delete_turn delete_waitpoint delete_worker delete_zero_counts
        delete_zero_ready_counts events_across has_traces insert_commit insert_events insert_execution insert_frame
        insert_ready insert_signal insert_waitpoint newest_commit post prune_commits put_agenda put_attempt
        put_dead_letter put_dedup put_edge put_ended put_flow put_lane put_link put_parcel put_payload put_record put_server
        put_signing_key put_step put_stream put_turn put_worker repost_dead_letter take_parcels turn update_execution
    );
}

pub(crate) mod read {
    statements!("read":
        agenda attempts commit_id commits_after counts dead_letters dedup dedup_expired edge edges_from_upstreams
        edges_to_downstreams ended events_at_or_after events_from execution executions_newest_first
        executions_oldest_first flow flows_ended flows_newest_first flows_oldest_first frames_newest_first
        frames_oldest_first has_parcels has_posted inbox lane lanes leases links members members_newest_first
        members_oldest_first message newest_commit newest_execution next_due next_removal oldest_event orphans payload ready ready_counts
        record records servers signal signing_key signing_keys steps stream waitpoints_newest_first waitpoints_oldest_first worker
        workers
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn every_statement_prepares_against_a_migrated_database_and_every_file_is_a_statement() {
        let mut conn = rusqlite::Connection::open_in_memory().unwrap();
        schema::migrate(&mut conn, 1).unwrap();
        for (folder, all) in [("write", write::ALL), ("read", read::ALL)] {
            for (name, sql) in all {
                conn.prepare(sql).unwrap_or_else(|error| panic!("{folder}/{name}.sql: {error}"));
            }
            let files = std::fs::read_dir(format!("{}/sql/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap();
            let mut files: Vec<String> =
                files.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            files.sort();
            let mut names: Vec<String> = all.iter().map(|(name, _)| format!("{name}.sql")).collect();
            names.sort();
            assert_eq!(files, names);
        }
    }
}
