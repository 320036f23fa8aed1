//! Names, passwords and ports that no other process has.

use std::fs::File;
use std::io::Read;

use crate::Error;

fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::doing("reading /dev/urandom", error))?;
    Ok(bytes)
}

/// Sixteen hexadecimal digits.
pub(crate) fn word() -> Result<String, Error> {
    bytes().map(|bytes| format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// A number below `end`.
pub(crate) fn below(end: u16) -> Result<u16, Error> {
    bytes().map(|bytes| u16::from_ne_bytes(bytes) % end)
}
