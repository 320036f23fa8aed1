//! The address of a database, as other programs write it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ff_store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::Verify;

/// A connection that was cut without a word is noticed after this long.
const SILENCE: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const SHAPE: &str = "expected postgres://user:password@host:5432/database, with options such as \
                     ?sslmode=require, several hosts separated by commas, or a socket folder as ?host=/run/postgresql";

/// Where a database is and how to talk to it.
#[derive(Clone, Debug)]
pub struct Address {
    pub(crate) config: Config,
    pub(crate) verify: Verify,
    pub(crate) roots: Option<PathBuf>,
    /// `partitions` of the options in the address.
    pub partitions: Option<u16>,
    /// Without its password, for messages.
    pub(crate) shown: String,
}

impl Address {
    /// Reads `postgres://…` or `postgresql://…`.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] that names what is wrong and what is allowed.
    pub fn parse(url: &str) -> Result<Address, StoreError> {
        let url = url.trim();
        let bad = |problem: String| StoreError::Unusable(format!("the address {problem}; {SHAPE}"));
        let scheme = url.split("://").next().unwrap_or_default();
        if !matches!(scheme, "postgres" | "postgresql") || !url.contains("://") {
            return Err(bad("does not begin with postgres://".to_owned()));
        }
        let (base, options) = url.split_once('?').unwrap_or((url, ""));
        let (mut verify, mut roots, mut partitions) = (Verify::Nothing, None, None);
        let mut passed_on = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match (key, value) {
                ("partitions", _) => {
                    let count = value.parse::<u16>().ok().filter(|count| *count > 0);
                    let problem =
                        || bad(format!("has partitions={value}, which is no number from 1 to 65535"));
                    partitions = Some(count.ok_or_else(problem)?);
                }
                ("sslmode", "verify-ca") => verify = Verify::Authority,
                ("sslmode", "verify-full") => verify = Verify::Host,
                ("sslmode", "disable" | "prefer" | "require") => passed_on.push(option),
                ("sslmode", _) => {
                    let allowed = "disable, prefer, require, verify-ca and verify-full";
                    return Err(bad(format!("has sslmode={value}, which is none of {allowed}")));
                }
                ("sslrootcert", "system") => roots = None,
                ("sslrootcert", path) => roots = Some(PathBuf::from(path)),
                _ => passed_on.push(option),
            }
        }
        let cleaned = format!("{base}?{}", passed_on.join("&"));
        let mut config = Config::from_str(&cleaned)
            .map_err(|error| bad(format!("cannot be read ({})", crate::error::chain(&error))))?;
        if config.get_hosts().is_empty() {
            return Err(bad("names no host".to_owned()));
        }
        if verify != Verify::Nothing {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_application_name().is_none() {
            config.application_name("flowfabric");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        config.keepalives_idle(SILENCE);
        let shown = shown(&config);
        Ok(Address { config, verify, roots, partitions, shown })
    }
}

fn shown(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |n: usize| ports.get(n).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(n)),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{hosts}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address = Address::parse("postgres://ada:secret@db.example:6000/jobs?partitions=8").unwrap();
        assert_eq!(address.shown, "postgres://ada@db.example:6000/jobs");
        assert_eq!(address.partitions, Some(8));
        let several = Address::parse("postgresql://ada@a,b:7/jobs?target_session_attrs=read-write").unwrap();
        assert!(several.shown.contains("a:") && several.shown.contains("b:7"), "{}", several.shown);
    }

    #[test]
    fn modes_of_tls_are_those_of_other_clients() {
        let parse = |mode: &str| Address::parse(&format!("postgres://a@b/c?sslmode={mode}")).unwrap();
        for (mode, ssl, verify) in [
            ("disable", SslMode::Disable, Verify::Nothing),
            ("prefer", SslMode::Prefer, Verify::Nothing),
            ("require", SslMode::Require, Verify::Nothing),
            ("verify-ca", SslMode::Require, Verify::Authority),
            ("verify-full", SslMode::Require, Verify::Host),
        ] {
            let address = parse(mode);
            assert_eq!((address.config.get_ssl_mode(), address.verify), (ssl, verify), "{mode}");
        }
        assert_eq!(parse("prefer").roots, None);
        let own = Address::parse("postgres://a@b/c?sslmode=verify-full&sslrootcert=/etc/ca.pem").unwrap();
        assert_eq!(own.roots, Some("/etc/ca.pem".into()));
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong_and_never_shows_the_password() {
        for (url, part) in [
            ("mysql://a:secret@b/c", "does not begin with postgres://"),
            ("postgres://a:secret@b/c?sslmode=maybe", "sslmode=maybe"),
            ("postgres://a:secret@b/c?partitions=0", "partitions=0"),
            ("postgres://a:secret@b/c?colour=red", "cannot be read"),
            ("postgres://a:secret@b:port/c", "cannot be read"),
            ("postgres:///c", "names no host"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(error.contains("expected postgres://") && !error.contains("secret"), "{url}: {error}");
        }
    }
}
