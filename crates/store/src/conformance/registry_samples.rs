//! Records of the registry that cases write.

use ff_core::event::{By, Family};
use ff_core::query::Filter;
use ff_core::registry::{
    AccessToken, Action, BulkCounts, BulkOperation, BulkState, Delivery, Paused, Record, Revoked, Role,
    SecretHash, Selection, Webhook,
};
use ff_core::suspension::token::Secret;
use ff_core::{ExecutionId, LaneName, Namespace};

use super::samples::ODD;
use super::stand::START;

/// A token with nothing that need not be.
pub fn plain_token(id: &str, number: u8) -> AccessToken {
    AccessToken {
        id: id.into(),
        name: ODD.into(),
        hash: SecretHash([number; 32]),
        role: Role::Viewer,
        namespaces: Vec::new(),
        see_payloads: false,
        created_at: START - 5,
        created_by: By::new(ODD, ""),
        expires_at: None,
        revoked: None,
    }
}

pub fn token(id: &str, number: u8) -> Record {
    Record::Token(plain_token(id, number))
}

/// The same token later, with everything.
pub fn revoked_token(id: &str, number: u8) -> Record {
    Record::Token(AccessToken {
        role: Role::Admin,
        namespaces: vec![Namespace::default()],
        see_payloads: true,
        expires_at: Some(START + 9),
        revoked: Some(Revoked { at: START + 1, by: By::new("ada", ODD) }),
        ..plain_token(id, number)
    })
}

pub fn webhook(id: &str, number: u8) -> Record {
    let delivery = |number: u64| Delivery {
        number,
        at: START + number as i64,
        cursor: format!("c1.{number}").into(),
        events: 3,
        status: number.is_multiple_of(2).then_some(503),
        error: (number % 2 == 1).then(|| ODD.into()),
        took_ms: 12,
        attempt: 2,
    };
    Record::Webhook(Webhook {
        id: id.into(),
        url: "https://example.test/ä?x='\"\\".into(),
        secret: Secret([number; 32]),
        families: vec![Family::Flow, Family::Operator],
        namespace: Some(Namespace::default()),
        lane: Some(LaneName::default()),
        facts: vec!["completed".into()],
        created_at: START,
        created_by: By::new(ODD, ODD),
        revision: u64::from(number),
        paused: Some(Paused { at: START, by: By::new("ada", ODD) }),
        server: Some(ODD.into()),
        cursor: Some("c1.9".into()),
        tried: 50,
        failures: u32::MAX,
        next_at: Some(START + 77),
        recent: (1..=50).map(delivery).collect(),
    })
}

/// A bulk operation with everything.
pub fn bulk(id: &str, number: u8) -> Record {
    let execution = |n: u64| ExecutionId::from_parts(START, ff_core::Route(0), n);
    let mut counts = BulkCounts { seen: u64::from(number), done: 2, ..BulkCounts::default() };
    (0..9).for_each(|n| counts.skip(execution(n), "terminal", ODD.to_owned()));
    let filter = Filter { tags: vec![(ODD.to_owned(), ODD.to_owned())], ..Filter::default() };
    Record::Bulk(BulkOperation {
        id: id.into(),
        action: Action::Cancel { grace_ms: Some(5) },
        selection: match number % 2 {
            0 => Selection::Ids((0..500).map(execution).collect()),
            _ => Selection::Filter {
                filter: Box::new(filter),
                up_to: execution(u64::MAX),
                after: Some(execution(7)),
            },
        },
        rate: Some(u32::MAX),
        namespaces: vec![Namespace::default()],
        asked: "0f".into(),
        expected: Some(u64::from(u32::MAX)),
        started_at: START,
        started_by: By::new(ODD, ODD),
        state: BulkState::Stopped,
        ended_at: Some(START + 5),
        stopped_by: Some(By::new("ada", ODD)),
        server: Some(ODD.into()),
        parts: 7,
        next_at: Some(START + 77),
        counts,
    })
}
