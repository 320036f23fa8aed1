//! Operators who make and revoke tokens, and servers that deliver to a webhook.

use ff_core::Command;
use ff_core::commands::{
    CreateToken, NoteDelivery, RemoveWebhook, RevokeToken, Sent, SetWebhook, TakeWebhook,
};
use ff_core::registry::{HOME, Record, RecordKey, Role, SecretHash};
use ff_core::suspension::token::Secret;

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
        match rng.below(10) {
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
            _ => self.delivery(),
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
