//! Who serves this file, and who has died.
//!
//! Each server has a row in the file and holds a lock of the operating system on a file of its own, in a folder
//! beside the database. The system lets go of the lock when the process ends, however it ends, so a lock that
//! is free proves its death. A row without its lock file belongs to another place: the database was copied.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ff_store::StoreError;
use rustc_hash::FxHashMap;

const NAME_BYTES_MAX: usize = 200;

/// The folder `<database>-lock`.
#[derive(Debug)]
pub(crate) struct LockFolder {
    folder: PathBuf,
    /// The locks of servers that entered through this handle.
    held: Mutex<FxHashMap<String, File>>,
}

/// While it lives, no other process opens the database for the first time, enters, or looks for the dead.
#[derive(Debug)]
pub(crate) struct Turn(#[allow(dead_code)] File);

impl LockFolder {
    pub(crate) fn beside(file: &Path) -> Result<LockFolder, StoreError> {
        let mut folder = file.as_os_str().to_owned();
        folder.push("-lock");
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(&folder).map_err(|error| cannot(&folder, "create", &error))?;
        Ok(LockFolder { folder, held: Mutex::default() })
    }

    pub(crate) fn turn(&self) -> Result<Turn, StoreError> {
        let path = self.folder.join("turn");
        let file = open(&path)?;
        file.lock().map_err(|error| cannot(&path, "lock", &error))?;
        Ok(Turn(file))
    }

    /// Takes the lock of a server of this process.
    pub(crate) fn hold(&self, _: &Turn, server: &str) -> Result<(), StoreError> {
        let path = self.path(server)?;
        let mut held = self.held.lock().map_err(|_| poisoned(&self.folder))?;
        if held.contains_key(server) {
            return Ok(());
        }
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => drop(held.insert(server.to_owned(), file)),
            Err(TryLockError::WouldBlock) => {
                let text = format!("a running process already serves as {server:?}; choose another name");
                return Err(StoreError::Refused(text));
            }
            Err(TryLockError::Error(error)) => return Err(cannot(&path, "lock", &error)),
        }
        Ok(())
    }

    /// Whether a server that entered has ended.
    pub(crate) fn is_free(&self, _: &Turn, server: &str) -> Result<bool, StoreError> {
        let path = self.path(server)?;
        match File::open(&path) {
            Ok(file) => Ok(file.try_lock().is_ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(cannot(&path, "open", &error)),
        }
    }

    /// Lets go of a server's lock, and removes its file unless another process holds it.
    pub(crate) fn release(&self, turn: &Turn, server: &str) -> Result<(), StoreError> {
        let held = self.held.lock().map_err(|_| poisoned(&self.folder))?.remove(server);
        drop(held);
        if self.is_free(turn, server)? {
            match std::fs::remove_file(self.path(server)?) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(cannot(&self.path(server)?, "remove", &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets go of everything, as the end of the process would.
    pub(crate) fn release_all(&self) {
        if let Ok(mut held) = self.held.lock() {
            held.clear();
        }
    }

    /// A file name for any server name: what is not plain becomes its bytes in hexadecimal.
    fn path(&self, server: &str) -> Result<PathBuf, StoreError> {
        let mut name = String::from("server-");
        for byte in server.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(byte)),
                other => name.push_str(&format!("%{other:02x}")),
            }
        }
        if server.is_empty() || name.len() > NAME_BYTES_MAX {
            let text = format!("{server:?} cannot name a server: use 1 to {NAME_BYTES_MAX} plain characters");
            return Err(StoreError::Refused(text));
        }
        Ok(self.folder.join(name))
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    opened.map_err(|error| cannot(path, "open", &error))
}

fn cannot(path: &Path, what: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unusable(format!(
        "cannot {what} {}: {error}; this process needs to write in the folder of the database",
        path.display()
    ))
}

fn poisoned(folder: &Path) -> StoreError {
    StoreError::Unavailable(format!("the locks in {} were left in an unknown state", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_free_when_its_holder_has_let_go_or_never_was() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        let (ours, theirs) = (LockFolder::beside(&database).unwrap(), LockFolder::beside(&database).unwrap());
        let free = |name| ours.is_free(&ours.turn().unwrap(), name).unwrap();
        theirs.hold(&theirs.turn().unwrap(), "a/b ü").unwrap();
        assert!(!free("a/b ü"));
        assert!(free("never"));
        let taken = ours.hold(&ours.turn().unwrap(), "a/b ü").unwrap_err();
        assert!(taken.to_string().contains("already serves"), "{taken}");
        theirs.release_all();
        assert!(free("a/b ü"));
        ours.release(&ours.turn().unwrap(), "a/b ü").unwrap();
        let left = std::fs::read_dir(folder.path().join("a.db-lock")).unwrap().count();
        assert_eq!(left, 1, "only the file of the turn is left");
        assert!(ours.hold(&ours.turn().unwrap(), &"x".repeat(500)).is_err());
    }
}
