//! What a proxy has been told.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    orders: Mutex<Orders>,
    /// Wakes those who delay.
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Orders {
    pub over: bool,
    pub refuse_new: bool,
    pub delay: Duration,
    pub open: BTreeMap<u64, Connection>,
    allowance_to_server: Option<u64>,
    allowance_to_client: Option<u64>,
    last_id: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub swallow: bool,
    client: TcpStream,
    server: TcpStream,
}

/// What is to be done with a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Carry,
    /// Only so many bytes go on, and then everything breaks.
    CarryThenCut(usize),
    /// It is lost, the client's side breaks, and the server may finish what it was asked for.
    Swallow,
    /// The connection is already broken.
    Lost,
}

impl Switches {
    pub fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn cut(&self) {
        for (_, connection) in std::mem::take(&mut self.lock().open) {
            // A side that is closed already needs no closing.
            let _ = connection.client.shutdown(Shutdown::Both);
            let _ = connection.server.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    pub fn heal(&self) {
        let mut orders = self.lock();
        orders.refuse_new = false;
        orders.delay = Duration::ZERO;
        orders.open.values_mut().for_each(|connection| connection.swallow = false);
        orders.allow(Direction::ToServer, None);
        orders.allow(Direction::ToClient, None);
        drop(orders);
        self.changed.notify_all();
    }

    /// Waits as long as the delay says; a cut ends the wait.
    pub fn hold_back(&self, id: u64) {
        let started = Instant::now();
        let mut orders = self.lock();
        while orders.open.contains_key(&id) {
            let left = orders.delay.saturating_sub(started.elapsed());
            if left.is_zero() {
                return;
            }
            orders = self.changed.wait_timeout(orders, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn fate(&self, id: u64, direction: Direction, bytes: usize) -> Fate {
        let mut orders = self.lock();
        let Some(connection) = orders.open.get(&id) else { return Fate::Lost };
        if connection.swallow && direction == Direction::ToClient {
            return Fate::Swallow;
        }
        let Some(allowance) = orders.allowance(direction) else { return Fate::Carry };
        let wanted = bytes as u64;
        if wanted < *allowance {
            *allowance -= wanted;
            return Fate::Carry;
        }
        let rest = usize::try_from(*allowance).unwrap_or(bytes);
        orders.allow(direction, None);
        Fate::CarryThenCut(rest)
    }
}

impl Orders {
    pub fn enter(&mut self, client: TcpStream, server: TcpStream) -> u64 {
        self.last_id += 1;
        self.open.insert(self.last_id, Connection { swallow: false, client, server });
        self.last_id
    }

    pub fn allow(&mut self, direction: Direction, bytes: Option<u64>) {
        match direction {
            Direction::ToServer => self.allowance_to_server = bytes,
            Direction::ToClient => self.allowance_to_client = bytes,
        }
    }

    fn allowance(&mut self, direction: Direction) -> Option<&mut u64> {
        match direction {
            Direction::ToServer => self.allowance_to_server.as_mut(),
            Direction::ToClient => self.allowance_to_client.as_mut(),
        }
    }
}
