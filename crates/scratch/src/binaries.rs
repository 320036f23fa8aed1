//! Where the programs of PostgreSQL and PgBouncer are.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// A folder that holds `postgres`, `initdb`, `pg_ctl`, `pg_isready`, `pg_basebackup` and `psql` of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
}

const NEEDED: [&str; 6] = ["postgres", "initdb", "pg_ctl", "pg_isready", "pg_basebackup", "psql"];
const DEBIAN: &str = "/usr/lib/postgresql";

impl Binaries {
    /// `FLOWFABRIC_PG_BIN` if it is set, and otherwise Debian's newest version, what `pg_config` names, or `PATH`.
    ///
    /// # Errors
    /// None of these folders holds a whole PostgreSQL.
    pub fn find() -> Result<Binaries, Error> {
        if let Some(folder) = std::env::var_os("FLOWFABRIC_PG_BIN") {
            let folder = PathBuf::from(folder);
            return Binaries::at(&folder).ok_or_else(|| {
                let (needed, folder) = (NEEDED.join(", "), folder.display());
                Error::new(format!("FLOWFABRIC_PG_BIN is {folder}; it must be a folder that holds {needed}"))
            });
        }
        debian()
            .into_iter()
            .chain(pg_config())
            .chain(path())
            .find_map(|folder| Binaries::at(&folder))
            .ok_or_else(|| {
                Error::new(format!(
                    "no PostgreSQL found in {DEBIAN}/*/bin, by pg_config, or in PATH; install Debian's \
                     package `postgresql` or set FLOWFABRIC_PG_BIN to the folder of its programs"
                ))
            })
    }

    fn at(folder: &Path) -> Option<Binaries> {
        let whole = NEEDED.iter().all(|name| folder.join(name).is_file());
        whole.then(|| Binaries { folder: folder.to_owned() })
    }

    /// The path of one of its programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Such as `15.14`.
    pub(crate) fn version(&self) -> Result<String, Error> {
        let program = self.program("postgres");
        let output = Command::new(&program)
            .arg("--version")
            .output()
            .map_err(|error| Error::doing(program.display(), error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
            .ok_or_else(|| Error::new(format!("{} --version says {text:?}", program.display())))
    }
}

fn debian() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

fn pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().into())
}

fn path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// The program `pgbouncer`.
///
/// # Errors
/// It is neither where Debian's package puts it nor in `PATH`.
pub fn find_pgbouncer() -> Result<PathBuf, Error> {
    std::iter::once(PathBuf::from("/usr/sbin"))
        .chain(path())
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Error::new("no pgbouncer found in /usr/sbin or PATH; install Debian's package `pgbouncer`")
        })
}
