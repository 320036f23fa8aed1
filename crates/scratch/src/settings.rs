//! How a private server is set up.

use std::fmt::Write;
use std::path::Path;

/// What callers may choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether it waits for the disk.
    ///
    /// Without, commits are quick and lost when the machine loses power, and the newest ones also when the server is
    /// stopped at once: `synchronous_commit` is off. A test that kills the server and counts what was acknowledged
    /// needs `synchronous_commit` among `extra`, or a durable server.
    pub durable: bool,
    /// Settings of PostgreSQL by name, which win over those made here.
    pub extra: Vec<(String, String)>,
}

impl Settings {
    /// For tests: quick, safe against nothing.
    #[must_use]
    pub fn quick() -> Settings {
        Settings::default()
    }

    /// For benchmarks and for tests of the server's loss of power: what a careful operator would run, with the
    /// settings that docs/postgres.md recommends.
    #[must_use]
    pub fn durable() -> Settings {
        Settings { durable: true, extra: Vec::new() }
    }

    /// Sets one more setting of PostgreSQL.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Settings {
        self.extra.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The lines for `postgresql.conf`; of two lines with one name the later one counts.
    pub(crate) fn lines(&self, port: u16, socket_folder: &Path, version: &str) -> String {
        let (port, socket_folder) = (port.to_string(), socket_folder.display().to_string());
        let flush = if self.durable { "on" } else { "off" };
        let major = version.split('.').next().and_then(|it| it.parse().ok()).unwrap_or(0_u32);
        let compression = match self.durable {
            // Older ones have one method only.
            true if major < 15 => "on",
            true => "lz4",
            false => "off",
        };
        let ours = [
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", &socket_folder),
            ("fsync", flush),
            ("synchronous_commit", flush),
            ("full_page_writes", flush),
            ("wal_compression", compression),
            ("max_connections", "300"),
            ("shared_buffers", "256MB"),
            ("max_wal_size", "2GB"),
            ("checkpoint_timeout", "15min"),
            // A standby that was away for a while still finds what it missed.
            ("wal_keep_size", "512MB"),
            ("password_encryption", "scram-sha-256"),
            ("log_line_prefix", "%m [%p] %d "),
        ];
        let extra = self.extra.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut text = String::new();
        for (name, value) in ours.into_iter().chain(extra) {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_sets_comes_last_and_is_quoted() {
        let lines = Settings::durable().with("fsync", "off").with("cluster_name", "it's").lines(
            1,
            Path::new("/s"),
            "15.1",
        );
        assert!(lines.find("fsync = 'on'").unwrap() < lines.find("fsync = 'off'").unwrap());
        assert!(lines.contains("wal_compression = 'lz4'"), "{lines}");
        let older = Settings::durable().lines(1, Path::new("/s"), "14.9");
        assert!(older.contains("wal_compression = 'on'"), "{older}");
        assert!(lines.ends_with("cluster_name = 'it''s'\n"), "{lines}");
    }
}
