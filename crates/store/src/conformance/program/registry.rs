//! What random programs do with the registry.

use ff_core::commands::{self, Command, Reached, Sent};
use ff_core::registry::{Action, BulkCounts, HOME, Role, SecretHash, Selection};
use ff_core::suspension::token::Secret;
use ff_core::{ExecutionId, Namespace, PartitionId};

use super::{Program, by};
use crate::conformance::samples;

const IDS: [&str; 4] = ["a", "b-c", "d_1", "0"];

impl Program {
    pub(super) fn about_registry(&mut self, partition: PartitionId) -> Option<Command> {
        if HOME.partition(self.partitions) != partition {
            return None;
        }
        let id: Box<str> = IDS[self.dice.below(4)].into();
        let number = self.dice.below(4) as u8;
        let (actor, cause) = by();
        Some(match self.dice.below(12) {
            0..=2 => commands::CreateToken {
                id,
                name: samples::ODD.replace(char::is_control, "").into(),
                hash: SecretHash([number; 32]),
                role: Role::ALL[self.dice.below(4)],
                namespaces: vec![Namespace::default(); self.dice.below(2)],
                see_payloads: self.dice.below(2) == 0,
                expires_in_ms: (self.dice.below(2) == 0).then_some(1),
                actor,
                cause,
            }
            .into(),
            3 => commands::RevokeToken { id, actor, cause }.into(),
            4 | 5 => commands::SetWebhook {
                id,
                url: format!("https://example.test/{number}").into(),
                secret: Some(Secret([number; 32])),
                first_secret: None,
                families: Vec::new(),
                namespace: (self.dice.below(2) == 0).then(Namespace::default),
                lane: None,
                facts: Vec::new(),
                paused: self.dice.below(3) == 0,
                begin: None,
                actor,
                cause,
            }
            .into(),
            9..=11 => self.about_bulk(id, number),
            6 => commands::RemoveWebhook { id, actor, cause }.into(),
            _ if self.dice.below(3) == 0 => {
                commands::TakeWebhook { webhook: id, before: None, server: Some("server".into()) }.into()
            }
            _ => self.note_delivery(id),
        })
    }

    fn about_bulk(&mut self, id: Box<str>, number: u8) -> Command {
        let (actor, cause) = by();
        let server: Box<str> = "server".into();
        let up_to = ExecutionId(uuid::Uuid::max());
        match self.dice.below(6) {
            0..=2 => commands::StartBulk {
                id,
                action: Action::Priority { priority: number as i8 },
                selection: match self.dice.below(2) {
                    0 => Selection::Ids(vec![ExecutionId(uuid::Uuid::from_u128(number.into())); 2]),
                    _ => Selection::Filter { filter: Box::default(), up_to, after: None },
                },
                rate: (self.dice.below(2) == 0).then_some(10),
                namespaces: vec![Namespace::default(); self.dice.below(2)],
                expected: None,
                server: (self.dice.below(2) == 0).then_some(server),
                actor,
                cause,
            }
            .into(),
            3 => commands::TakeBulk { bulk: id, before: None, server: Some(server) }.into(),
            4 => {
                let mut counts = BulkCounts { seen: 2, done: 1, ..BulkCounts::default() };
                counts.skip(up_to, "terminal", samples::ODD.to_owned());
                let part = 1 + self.dice.below(2) as u64;
                let reached = if part == 1 { Reached::Ids(1) } else { Reached::End };
                commands::AdvanceBulk { bulk: id, server, part, reached, counts, sent: 1 }.into()
            }
            _ => commands::StopBulk { id, actor, cause }.into(),
        }
    }

    fn note_delivery(&mut self, webhook: Box<str>) -> Command {
        let number = 1 + self.dice.below(2) as u64;
        let sent = Sent { number, events: 1, status: Some(500), error: None, took_ms: 1 };
        let sent = (self.dice.below(4) > 0).then_some(sent);
        let (server, to) = ("server".into(), "c1.1".into());
        commands::NoteDelivery { webhook, server, from: None, to, sent, seed: self.dice.roll() }.into()
    }
}
