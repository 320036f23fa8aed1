//! The address of a server.

use std::fmt;

use hyper::Uri;

use crate::Error;

/// The port of a server that is not named.
const PORT: u16 = 7400;

const ALLOWED: &str = "allowed is http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:7400";

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub secure: bool,
    /// Host and port, as they go into the Host header.
    authority: String,
    /// What comes before every path, without a slash at its end.
    prefix: String,
}

impl Address {
    /// Whether an address is meant to be that of a server.
    pub fn is_meant(url: &str) -> bool {
        let url = url.trim();
        url.starts_with("http:") || url.starts_with("https:")
    }

    pub fn parse(url: &str) -> Result<Address, Error> {
        let bad = |problem: &str| Error::invalid("url", format!("{problem}; {ALLOWED}"));
        let url = url.trim();
        // Nothing of an address with a secret in it may be shown, so this comes first.
        if url.contains('@') {
            let problem = "has a name or a password before the host, where it would end up in logs; give a token \
                           with Options::token or in the environment as FLOWFABRIC_TOKEN";
            return Err(bad(problem));
        }
        let shown: String = url.chars().take(80).collect();
        let uri: Uri = url.parse().map_err(|_| bad(&format!("is {shown:?}, which is no address")))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad(&format!("is {shown:?}"))),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| bad(&format!("is {shown:?}, which names no host")))?;
        if uri.query().is_some() || url.contains('#') {
            return Err(bad(&format!("is {shown:?}, which has a question mark or a hash")));
        }
        let after_host = uri.authority().map_or("", |it| &it.as_str()[host.len()..]);
        let port = match after_host.strip_prefix(':') {
            None => PORT,
            Some(port) => {
                let fits = port.parse::<u16>().ok().filter(|port| *port > 0);
                fits.ok_or_else(|| bad(&format!("is {shown:?}, whose port is none of 1 to 65535")))?
            }
        };
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Address { secure, authority: format!("{host}:{port}"), prefix })
    }

    /// The address of a path on this server.
    pub fn at(&self, path: &str) -> Result<Uri, hyper::http::Error> {
        let scheme = if self.secure { "https" } else { "http" };
        let path = format!("{}{path}", self.prefix);
        Uri::builder().scheme(scheme).authority(&*self.authority).path_and_query(path).build()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_server() {
        for (url, shown) in [
            ("http://127.0.0.1:7400", "http://127.0.0.1:7400"),
            ("http://localhost", "http://localhost:7400"),
            ("https://jobs.example.org:443/", "https://jobs.example.org:443"),
            (" http://[::1]:8080/fabric/ ", "http://[::1]:8080/fabric"),
        ] {
            assert_eq!(Address::parse(url).unwrap().to_string(), shown, "{url}");
        }
        let address = Address::parse("http://localhost:1/fabric").unwrap();
        assert_eq!(address.at("/v1/info?a=b").unwrap(), "http://localhost:1/fabric/v1/info?a=b");
    }

    #[test]
    fn a_secret_in_an_address_is_refused_and_not_shown() {
        for url in ["http://ada:secret@localhost", "https://secret@localhost:1"] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.field(), Some("url"));
            let text = error.to_string();
            assert!(text.contains("FLOWFABRIC_TOKEN") && !text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for url in [
            "http:",
            "http://",
            "https:///x",
            "http://localhost?x=1",
            "http://localhost/#x",
            "http://a b",
            "http://localhost:99999",
            "http://localhost:abc",
            "http://localhost:",
            "http://[::1]:0",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.field(), Some("url"), "{url}");
            assert!(error.to_string().contains("http://127.0.0.1:7400"), "{error}");
        }
    }
}
