//! Addresses of the form `postgres://user:password@host:port/database`.

use crate::Error;

/// The same server, another database.
#[must_use]
pub fn with_database(url: &str, database: &str) -> String {
    let (address, options) = url.split_once('?').map_or((url, ""), |(address, options)| (address, options));
    let after_scheme = address.find("://").map_or(0, |at| at + 3);
    let server = address[after_scheme..].find('/').map_or(address, |at| &address[..after_scheme + at]);
    let mark = if options.is_empty() { "" } else { "?" };
    format!("{server}/{database}{mark}{options}")
}

/// What a pooler must know of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub user: String,
    pub password: String,
    pub host: String,
    pub port: u16,
}

impl Login {
    pub fn parse(url: &str) -> Result<Login, Error> {
        let parsed = (|| {
            let rest = url.split_once("://")?.1;
            let (login, server) = rest.split(['/', '?']).next()?.rsplit_once('@')?;
            let ((user, password), (host, port)) = (login.split_once(':')?, server.rsplit_once(':')?);
            let port = port.parse().ok()?;
            Some(Login { user: user.into(), password: password.into(), host: host.into(), port })
        })();
        parsed.ok_or_else(|| {
            Error::new("the server's url must be of the form postgres://user:password@host:port/database")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_replaced_and_options_stay() {
        for (url, want) in [
            ("postgres://a:b@h:1/old", "postgres://a:b@h:1/new"),
            ("postgres://a:b@h:1", "postgres://a:b@h:1/new"),
            ("postgres://a:b@h:1/old?x=1&y=/z", "postgres://a:b@h:1/new?x=1&y=/z"),
        ] {
            assert_eq!(with_database(url, "new"), want);
        }
    }

    #[test]
    fn a_login_is_read_from_a_whole_url_only() {
        let login = Login::parse("postgres://me:pw@127.0.0.1:5433/db?x=1").unwrap();
        let want = Login { user: "me".into(), password: "pw".into(), host: "127.0.0.1".into(), port: 5433 };
        assert_eq!(login, want);
        for url in ["", "postgres://h:1/db", "postgres://me@h:1/db", "postgres://me:pw@h/db"] {
            assert!(Login::parse(url).is_err(), "{url}");
        }
    }
}
