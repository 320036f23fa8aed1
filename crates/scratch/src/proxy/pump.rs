//! One direction of one connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use super::switches::{Direction, Fate, Switches};

#[derive(Debug)]
pub(super) struct Pump {
    id: u64,
    direction: Direction,
    from: TcpStream,
    to: TcpStream,
    switches: Arc<Switches>,
}

impl Pump {
    pub fn new(
        id: u64,
        direction: Direction,
        from: &TcpStream,
        to: &TcpStream,
        switches: &Arc<Switches>,
    ) -> io::Result<Pump> {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        Ok(Pump { id, direction, from, to, switches: switches.clone() })
    }

    pub fn run(mut self) {
        // An end of one side, orderly or not, is the end of what can be carried this way.
        let _ = self.carry();
        let _ = self.to.shutdown(Shutdown::Write);
        if self.direction == Direction::ToClient {
            // The server has nothing more to say.
            self.switches.lock().open.remove(&self.id);
            let _ = self.from.shutdown(Shutdown::Both);
            let _ = self.to.shutdown(Shutdown::Both);
        }
    }

    fn carry(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = self.from.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.switches.hold_back(self.id);
            match self.switches.fate(self.id, self.direction, count) {
                Fate::Carry => self.to.write_all(&buffer[..count])?,
                Fate::CarryThenCut(rest) => {
                    self.to.write_all(&buffer[..rest])?;
                    self.switches.cut();
                    return Ok(());
                }
                Fate::Swallow => return self.swallow(&mut buffer),
                Fate::Lost => return Ok(()),
            }
        }
    }

    /// The client hears nothing more. The server reads to the end what it was asked, and its answers go nowhere.
    fn swallow(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.switches.lock().open.remove(&self.id);
        self.to.shutdown(Shutdown::Both)?;
        while self.from.read(buffer)? > 0 {}
        Ok(())
    }
}
