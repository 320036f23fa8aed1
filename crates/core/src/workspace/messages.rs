//! Messages to other partitions, and entries of the agenda that no record derives.

use std::sync::Arc;

use super::Workspace;
use super::table::Known;
use crate::Ms;
use crate::agenda::{AgendaEntry, AgendaKey, Subject};
use crate::id::PartitionId;
use crate::message::{Link, Message};
use crate::reply::Delivery;

impl Workspace {
    pub fn link(&self, peer: PartitionId) -> Link {
        match self.links.get(&peer) {
            Known::Present(link) => *link,
            _ => Link { peer, sent: 0, received: 0 },
        }
    }

    pub fn put_link(&mut self, link: Link) {
        self.links.put(link.peer, Some(link), self.batch);
    }

    /// Sends a message to every other partition.
    pub fn broadcast(&mut self, message: Message, now: Ms) -> Vec<Delivery> {
        let message = Arc::new(message);
        let peers = (0..self.partitions).map(PartitionId).filter(|peer| *peer != self.partition);
        let mut deliveries = Vec::new();
        for peer in peers.collect::<Vec<_>>() {
            let mut link = self.link(peer);
            link.sent += 1;
            self.put_link(link);
            let subject = Subject::Deliver { to: peer, number: link.sent };
            let key = AgendaKey { due: now, subject };
            self.agenda.add(key, Some(message.clone()));
            self.lists.agenda_added.push(AgendaEntry { key, message: Some(message.clone()) });
            deliveries.push(Delivery { to: peer, number: link.sent });
        }
        deliveries
    }

    /// Sends a copy once more if an earlier one may not have arrived everywhere, so that whoever repeats a
    /// call waits as long as the first caller had to.
    pub fn broadcast_again(&mut self, message: Message, now: Ms) -> Vec<Delivery> {
        let same = |it: &Option<Arc<Message>>| it.as_ref().is_some_and(|it| it.is_about_the_same(&message));
        let all_known = self.agenda.mark() >= now;
        if all_known && !self.agenda.iter().any(|(_, it)| same(it)) {
            return Vec::new();
        }
        self.broadcast(message, now)
    }

    /// Deletes an agenda entry that no record derives: a delivered message, or a stray.
    pub fn strike(&mut self, key: AgendaKey) {
        let entry = self.agenda.entry(&key);
        self.agenda.remove(&key);
        self.lists.agenda_removed.push((key, entry));
    }
}
