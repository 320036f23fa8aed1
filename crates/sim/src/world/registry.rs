//! Operators who make and revoke tokens, servers that deliver to a webhook, and servers that carry out bulk operations.

use ff_core::commands::{
    AdvanceBulk, CreateToken, NoteDelivery, Reached, RemoveWebhook, RevokeToken, Sent, SetWebhook, StartBulk,
    StopBulk, TakeBulk, TakeWebhook,
};
use ff_core::registry::{
    Action, BulkCounts, BulkOperation, HOME, Record, RecordKey, Role, SecretHash, Selection,
};
use ff_core::suspension::token::Secret;
use ff_core::{Command, ExecutionId};

use super::World;
use crate::profile::PARTITIONS;

const IDS: [&str; 3] = ["a", "b", "c"];
const HOOK: &str = "hook";
const SERVER: &str = "server";

impl World {
    pub(super) fn about_registry(&mut self) -> Command {
        let rng = &mut self.rng;
        let (actor, cause): (Box<str>, Box<str>) = ("somebody".into(), "a whim".into());
        let which = rng.below(3);
        let id: Box<str> = IDS[which].into();
        match rng.below(14) {
            0..=2 => CreateToken {
                id,
                name: "token".into(),
                hash: SecretHash([(which * 2 + rng.below(2)) as u8; 32]),
                role: *rng.pick(Role::ALL),
                namespaces: Vec::new(),
                see_payloads: rng.chance(5_000),
                expires_in_ms: rng.maybe(5_000, |rng| rng.range(1, 5_000)),
                actor,
                cause,
            }
            .into(),
            3 | 4 => RevokeToken { id, actor, cause }.into(),
            5 => SetWebhook {
                id: HOOK.into(),
                url: format!("https://example.test/{which}").into(),
                secret: Some(Secret([which as u8; 32])),
                first_secret: None,
                families: Vec::new(),
                namespace: None,
                lane: None,
                facts: Vec::new(),
                paused: rng.chance(3_000),
                begin: None,
                actor,
                cause,
            }
            .into(),
            6 if rng.chance(6_000) => {
                let server = rng.maybe(8_000, |_| SERVER.into());
                TakeWebhook { webhook: HOOK.into(), before: None, server }.into()
            }
            6 => RemoveWebhook { id: HOOK.into(), actor, cause }.into(),
            10.. => self.about_bulk(id),
            _ => self.delivery(),
        }
    }

    /// One operation of each id; parts go on from where it is now, or from where it was.
    fn about_bulk(&mut self, id: Box<str>) -> Command {
        let home = &self.store.mirrors[HOME.partition(PARTITIONS).index()];
        let known = home.registry.get(&RecordKey::bulk(&id)).and_then(|it| BulkOperation::of(it));
        let parts = known.map_or(0, |it| it.parts);
        let rng = &mut self.rng;
        let (actor, cause): (Box<str>, Box<str>) = ("somebody".into(), "a whim".into());
        let up_to = ExecutionId(uuid::Uuid::max());
        match rng.below(8) {
            0 | 1 => StartBulk {
                id,
                action: Action::Replay,
                selection: Selection::Filter { filter: Box::default(), up_to, after: None },
                rate: rng.maybe(5_000, |rng| rng.range(1, 50) as u32),
                namespaces: Vec::new(),
                expected: None,
                server: rng.maybe(5_000, |_| SERVER.into()),
                actor,
                cause,
            }
            .into(),
            2 => TakeBulk { bulk: id, before: None, server: rng.maybe(8_000, |_| SERVER.into()) }.into(),
            3 if rng.chance(3_000) => StopBulk { id, actor, cause }.into(),
            _ => {
                let counts = BulkCounts { seen: 2, done: 2, ..BulkCounts::default() };
                let part = if rng.chance(8_000) { parts + 1 } else { parts };
                let end = rng.chance(1_000);
                let at = ExecutionId(uuid::Uuid::from_u128(part.into()));
                let reached = if end { Reached::End } else { Reached::After(at) };
                AdvanceBulk { bulk: id, server: SERVER.into(), part, reached, counts, sent: 2 }.into()
            }
        }
    }

    /// From where the webhook is now, as a server sees it that reads before it delivers.
    fn delivery(&mut self) -> Command {
        let home = &self.store.mirrors[HOME.partition(PARTITIONS).index()];
        let (from, tried) = match home.registry.get(&RecordKey::webhook(HOOK)).map(|it| &**it) {
            Some(Record::Webhook(webhook)) => (webhook.cursor.clone(), webhook.tried),
            _ => (None, 0),
        };
        let rng = &mut self.rng;
        let status = Some(*rng.pick(&[200, 500]));
        let sent = Sent { number: tried + 1, events: 1, status, error: None, took_ms: rng.range(1, 9) };
        let to = format!("c1.{}", tried + 1).into();
        NoteDelivery {
            webhook: HOOK.into(),
            server: SERVER.into(),
            from,
            to,
            sent: Some(sent),
            seed: rng.draw(),
        }
        .into()
    }
}
