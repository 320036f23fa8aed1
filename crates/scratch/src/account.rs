//! The account under which servers run.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Error;

/// PostgreSQL and PgBouncer refuse to run as root, so root lends them another account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Ours { uid: u32 },
    Lent { uid: u32, gid: u32 },
}

impl Account {
    pub fn choose() -> Result<Account, Error> {
        let uid = rustix::process::geteuid().as_raw();
        if uid != 0 {
            return Ok(Account::Ours { uid });
        }
        let accounts =
            fs::read_to_string("/etc/passwd").map_err(|error| Error::doing("reading /etc/passwd", error))?;
        ["postgres", "nobody"].into_iter().find_map(|name| lookup(&accounts, name)).ok_or_else(|| {
            Error::new("servers do not run as root, and there is no account `postgres` or `nobody` for them")
        })
    }

    pub fn uid(self) -> u32 {
        match self {
            Account::Ours { uid } | Account::Lent { uid, .. } => uid,
        }
    }

    /// The command runs under this account, without the settings of whoever runs the tests.
    pub fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
        if let Account::Lent { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }

    pub fn give(self, path: &Path) -> Result<(), Error> {
        match self {
            Account::Ours { .. } => Ok(()),
            Account::Lent { uid, gid } => chown(path, Some(uid), Some(gid))
                .map_err(|error| Error::doing(format_args!("giving {} away", path.display()), error)),
        }
    }
}

fn lookup(accounts: &str, name: &str) -> Option<Account> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        Some(Account::Lent { uid, gid: fields.next()?.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0::/root:/bin/sh\npostgres2:x:5:6::/:/bin/sh\npostgres:x:101:104:a,,,:/:/bin/sh\n";
        assert_eq!(lookup(accounts, "postgres"), Some(Account::Lent { uid: 101, gid: 104 }));
        assert_eq!(lookup(accounts, "nobody"), None);
    }
}
