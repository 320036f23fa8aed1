//! A TCP proxy whose connections break when a test says so.
//!
//! The order to break is given from outside (`cut`, `swallow_answers` …) and read by the pumps (`pump.rs`), two
//! threads per connection, at each piece of data they carry.

mod pump;
mod switches;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use switches::{Direction, Switches};

use crate::Error;

/// Stands before a server on this machine and carries what comes, until it is told otherwise.
///
/// Every order is for one moment, except [`refuse_new`](Proxy::refuse_new) and [`delay`](Proxy::delay), which hold
/// until [`heal`](Proxy::heal).
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    switches: Arc<Switches>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a port of its own and carries to `target`.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn start(target: SocketAddr) -> Result<Proxy, Error> {
        let failed = |error: io::Error| Error::doing("listening on 127.0.0.1", error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let switches = Arc::new(Switches::default());
        let carried = switches.clone();
        let acceptor = std::thread::spawn(move || accept(&listener, target, &carried));
        Ok(Proxy { port, switches, acceptor: Some(acceptor) })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it carries.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.switches.lock().open.len()
    }

    /// Breaks every connection now; what is on its way is lost.
    pub fn cut(&self) {
        self.switches.cut();
    }

    /// New connections are closed as soon as they are made; those that exist stay.
    pub fn refuse_new(&self) {
        self.switches.lock().refuse_new = true;
    }

    /// On every connection that exists now, the server still gets what is asked and does it, but its next answer is
    /// lost and the client's side breaks.
    pub fn swallow_answers(&self) {
        self.switches.lock().open.values_mut().for_each(|connection| connection.swallow = true);
    }

    /// Every piece of data waits so long before it goes on, in both directions.
    pub fn delay(&self, time: Duration) {
        self.switches.lock().delay = time;
    }

    /// Breaks every connection once so many more bytes went to the server, in the middle of a message if need be.
    pub fn cut_after_to_server(&self, bytes: u64) {
        self.switches.lock().allow(Direction::ToServer, Some(bytes));
    }

    /// Breaks every connection once so many more bytes went to clients.
    pub fn cut_after_to_client(&self, bytes: u64) {
        self.switches.lock().allow(Direction::ToClient, Some(bytes));
    }

    /// Takes back all orders. Connections that broke stay broken.
    pub fn heal(&self) {
        self.switches.heal();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.switches.lock().refuse_new = true;
        self.switches.lock().over = true;
        // The acceptor looks at its orders when somebody connects.
        let woken = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        self.switches.cut();
        if let (Ok(_), Some(acceptor)) = (woken, self.acceptor.take()) {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, switches: &Arc<Switches>) {
    for client in listener.incoming() {
        let (over, refuse_new) = {
            let orders = switches.lock();
            (orders.over, orders.refuse_new)
        };
        if over {
            return;
        }
        if let (Ok(client), false) = (client, refuse_new) {
            // A connection that cannot be carried is closed, as by a server that is away.
            let _ = carry(client, target, switches);
        }
    }
}

fn carry(client: TcpStream, target: SocketAddr, switches: &Arc<Switches>) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let id = switches.lock().enter(client.try_clone()?, server.try_clone()?);
    let there = pump::Pump::new(id, Direction::ToServer, &client, &server, switches)?;
    let back = pump::Pump::new(id, Direction::ToClient, &server, &client, switches)?;
    std::thread::spawn(move || there.run());
    std::thread::spawn(move || back.run());
    Ok(())
}

#[cfg(test)]
mod tests;
