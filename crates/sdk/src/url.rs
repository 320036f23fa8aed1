//! The address of a store.

use std::path::PathBuf;

use ff_store_sqlite::Synchronous;

use crate::Error;

/// What an address names. What it leaves out, [`Options`](crate::Options) decide.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Address {
    pub place: Place,
    pub partitions: Option<u16>,
    pub synchronous: Option<Synchronous>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Memory,
    Sqlite(PathBuf),
    /// The whole address; the store reads it.
    Postgres(String),
}

const ALLOWED: &str = "this build supports sqlite:PATH (such as sqlite:jobs.db or sqlite:/var/lib/jobs.db, with \
                       options such as ?partitions=3&synchronous=normal), postgres://user:password@host/database, \
                       memory: and, for a server, http://host:7400 or https://host:7400";

impl Address {
    pub fn parse(url: &str) -> Result<Address, Error> {
        if url.trim().starts_with("postgres") {
            return Address::postgres(url.trim());
        }
        let shown: String = url.chars().take(80).collect();
        let bad = |problem: String| Error::invalid("url", format!("is {shown:?}{problem}; {ALLOWED}"));
        let (scheme, rest) = url.trim().split_once(':').ok_or_else(|| bad(String::new()))?;
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        let place = match scheme {
            "memory" if path.is_empty() => Place::Memory,
            "memory" => return Err(bad(", but a store in memory has no path".to_owned())),
            "sqlite" if path.is_empty() => return Err(bad(", which names no file".to_owned())),
            // A leading double slash is how other programs write such addresses.
            "sqlite" => Place::Sqlite(path.strip_prefix("//").unwrap_or(path).into()),
            _ => return Err(bad(String::new())),
        };
        let mut address = Address { place, partitions: None, synchronous: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match (key, &address.place) {
                ("partitions", _) => {
                    let count = value.parse::<u16>().ok().filter(|count| *count > 0);
                    let problem = || bad(format!(", where partitions is {value:?} and not a number from 1"));
                    address.partitions = Some(count.ok_or_else(problem)?);
                }
                ("synchronous", Place::Sqlite(_)) => {
                    address.synchronous = Some(match value {
                        "full" => Synchronous::Full,
                        "normal" => Synchronous::Normal,
                        "off" => Synchronous::Off,
                        _ => {
                            let problem = ", where synchronous is not one of full, normal and off";
                            return Err(bad(problem.to_owned()));
                        }
                    });
                }
                _ => return Err(bad(format!(", which has the unknown option {key:?}"))),
            }
        }
        Ok(address)
    }

    /// Checked here so that a wrong one is found before anything is opened; its message never has the password.
    fn postgres(url: &str) -> Result<Address, Error> {
        match ff_store_postgres::Address::parse(url) {
            Ok(address) => Ok(Address {
                place: Place::Postgres(url.to_owned()),
                partitions: address.partitions,
                synchronous: None,
            }),
            Err(error) => Err(Error::invalid("url", format!("is wrong: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_place_and_its_options() {
        let sqlite = |path: &str| Place::Sqlite(path.into());
        let cases = [
            ("memory:", Place::Memory, None, None),
            ("memory:?partitions=3", Place::Memory, Some(3), None),
            ("sqlite:jobs.db", sqlite("jobs.db"), None, None),
            ("sqlite:/var/jobs.db", sqlite("/var/jobs.db"), None, None),
            ("sqlite:///var/jobs.db", sqlite("/var/jobs.db"), None, None),
            (
                "sqlite:a b.db?partitions=2&synchronous=normal",
                sqlite("a b.db"),
                Some(2),
                Some(Synchronous::Normal),
            ),
        ];
        for (url, place, partitions, synchronous) in cases {
            assert_eq!(Address::parse(url), Ok(Address { place, partitions, synchronous }), "{url}");
        }
    }

    #[test]
    fn an_address_of_postgres_is_checked_and_keeps_its_password_to_itself() {
        let address = Address::parse("postgres://ada:secret@localhost/jobs?partitions=4").unwrap();
        assert_eq!(address.partitions, Some(4));
        let error = Address::parse("postgres://ada:secret@localhost/jobs?sslmode=maybe").unwrap_err();
        assert_eq!(error.field(), Some("url"));
        assert!(
            error.to_string().contains("sslmode=maybe") && !error.to_string().contains("secret"),
            "{error}"
        );
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for url in [
            "",
            "jobs.db",
            "sqlite:",
            "sqlite:?partitions=1",
            "memory:x",
            "memory:?synchronous=off",
            "sqlite:a?partitions=0",
            "sqlite:a?partitions=many",
            "sqlite:a?synchronous=maybe",
            "sqlite:a?colour=red",
            "mysql://localhost/x",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.field(), Some("url"), "{url}");
            assert!(error.to_string().contains("supports sqlite:PATH"), "{error}");
        }
    }
}
