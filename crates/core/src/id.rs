//! Ids: UUIDs that sort by time and carry the route that names their partition.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::Ms;

/// The 16-bit number inside every id that says which partition it lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route(pub u16);

impl Route {
    /// The route of an idempotency key: the first 16 bits of SHA-256(namespace, 0, key), simple enough that
    /// SQL can compute the same.
    pub fn of_key(namespace: &str, key: &str) -> Route {
        let mut hash = Sha256::new();
        hash.update(namespace.as_bytes());
        hash.update([0]);
        hash.update(key.as_bytes());
        let digest = hash.finalize();
        Route(u16::from_be_bytes([digest[0], digest[1]]))
    }

    /// The route of a global record (a lane, a worker) by its name.
    pub fn of_name(name: &str) -> Route {
        Route::of_key("", name)
    }

    pub fn partition(self, partitions: u16) -> PartitionId {
        PartitionId(self.0 % partitions.max(1))
    }
}

/// A partition's number, from 0 to P − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionId(pub u16);

impl PartitionId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The random bits of an id that is made of what it stands for, so that whoever asks again gets the same. Others can make
/// it, too: what is there under such an id must be looked up.
pub fn derived(parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bits = [0; 8];
    bits.copy_from_slice(&hash.finalize()[..8]);
    u64::from_be_bytes(bits)
}

/// The text was not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id: expected a UUID such as 0197f3a2-6f3e-7c41-9b1d-0242ac120002")]
pub struct BadId(pub String);

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Builds an id from its parts: time, route and random bits.
            pub fn from_parts(at: Ms, route: Route, random: u64) -> Self {
                $name(compose(at, route, random))
            }

            pub fn route(self) -> Route {
                let bytes = self.0.as_bytes();
                Route(u16::from_be_bytes([bytes[14], bytes[15]]))
            }

            /// The time inside the id, for ids made by [`from_parts`](Self::from_parts).
            pub fn created_at(self) -> Ms {
                let mut wide = [0u8; 8];
                wide[2..].copy_from_slice(&self.0.as_bytes()[..6]);
                i64::from_be_bytes(wide)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Uuid::parse_str(text).map($name).map_err(|_| BadId(text.chars().take(80).collect()))
            }
        }
    };
}

uuid_id!(
    /// One durable unit of work.
    ExecutionId
);
uuid_id!(
    /// A graph of executions; its members carry its route.
    FlowId
);
uuid_id!(
    /// One process of a worker; new each start.
    InstanceId
);
uuid_id!(
    /// One commit of one partition.
    CommitId
);
uuid_id!(
    /// One process that serves a store; new each start.
    ServerId
);

/// A version-7 UUID: 48 bits of time, then random bits, with the route in the last two bytes.
fn compose(at: Ms, route: Route, random: u64) -> Uuid {
    let mut bytes = [0u8; 16];
    let time = at.max(0).to_be_bytes();
    bytes[..6].copy_from_slice(&time[2..]);
    bytes[6..14].copy_from_slice(&random.to_be_bytes());
    bytes[6] = (bytes[6] & 0x0f) | 0x70;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    bytes[14..].copy_from_slice(&route.0.to_be_bytes());
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_back_its_parts_and_sorts_by_time() {
        let early = ExecutionId::from_parts(1_700_000_000_000, Route(513), u64::MAX);
        let late = ExecutionId::from_parts(1_700_000_000_001, Route(0), 0);
        assert_eq!(early.route(), Route(513));
        assert_eq!(early.created_at(), 1_700_000_000_000);
        assert!(early < late);
        assert_eq!(early.to_string().parse::<ExecutionId>(), Ok(early));
        assert_eq!(early.0.get_version_num(), 7);
    }

    #[test]
    fn text_that_is_no_uuid_is_refused() {
        assert!("banana".parse::<ExecutionId>().unwrap_err().to_string().contains("banana"));
    }

    #[test]
    fn the_route_of_a_key_separates_namespace_from_key() {
        assert_ne!(Route::of_key("a", "bc"), Route::of_key("ab", "c"));
    }
}
