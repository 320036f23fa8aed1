//! Which server prefers which partition: rendezvous hashing over the servers that are alive. It orders and
//! never excludes; nothing goes wrong if two servers see different lists.

use ff_core::PartitionId;

/// How many of the living servers come before this one, for each partition.
pub fn ranks(server: &str, alive: &[String], partitions: u16) -> Vec<u32> {
    let rank = |partition: PartitionId| {
        let ours = weight(server, partition);
        let before = alive.iter().filter(|it| *it != server);
        before.filter(|it| (weight(it, partition), it.as_str()) > (ours, server)).count() as u32
    };
    (0..partitions).map(PartitionId).map(rank).collect()
}

/// The server that comes first in a partition.
pub fn first(alive: &[String], partition: PartitionId) -> Option<&str> {
    alive.iter().map(String::as_str).max_by_key(|it| (weight(it, partition), *it))
}

fn weight(server: &str, partition: PartitionId) -> u64 {
    let bytes = server.bytes().chain(partition.0.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The last bytes alone would hardly move the upper bits, and those decide.
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("server-{n}")).collect()
    }

    #[test]
    fn every_partition_has_one_first_server_and_every_server_some_partitions() {
        let alive = names(4);
        let all: Vec<Vec<u32>> = alive.iter().map(|it| ranks(it, &alive, 64)).collect();
        for partition in 0..64 {
            let mut found: Vec<u32> = all.iter().map(|ranks| ranks[partition]).collect();
            found.sort_unstable();
            assert_eq!(found, [0, 1, 2, 3]);
        }
        for ranks in &all {
            let first = ranks.iter().filter(|rank| **rank == 0).count();
            assert!((6..=28).contains(&first), "{first} of 64 partitions");
        }
    }

    #[test]
    fn a_server_that_leaves_moves_only_its_own_partitions() {
        let (before, after) = (names(5), names(4));
        for server in &after {
            let (old, new) = (ranks(server, &before, 64), ranks(server, &after, 64));
            let lost = old.iter().zip(&new).filter(|(old, new)| **old == 0 && **new != 0).count();
            assert_eq!(lost, 0);
        }
    }

    #[test]
    fn whoever_is_alone_is_first_everywhere() {
        assert_eq!(ranks("a", &[], 3), [0, 0, 0]);
        assert_eq!(ranks("a", &["a".to_owned()], 3), [0, 0, 0]);
    }
}
