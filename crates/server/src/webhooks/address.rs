//! Where deliveries may go. A webhook names a host, and whoever owns that name says which address it has, so the
//! address is looked at after it was looked up, and the connection goes to exactly that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Which addresses are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Those of the public internet.
    Public,
    /// All, also those of this machine and of private networks.
    Any,
}

/// An address of a host that may be called.
pub(super) async fn resolve(host: &str, port: u16, targets: Targets) -> Result<SocketAddr, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| format!("{host} has no address: {error}"))?.collect();
    choose(host, &found, targets)
}

fn choose(host: &str, found: &[SocketAddr], targets: Targets) -> Result<SocketAddr, String> {
    let allowed = found.iter().find(|it| targets == Targets::Any || refusal(it.ip()).is_none());
    match (allowed, found.first()) {
        (Some(address), _) => Ok(*address),
        (None, Some(address)) => {
            let why = refusal(address.ip()).unwrap_or("no public address");
            Err(format!("{host} is {}, {why}; webhooks go to public addresses only", address.ip()))
        }
        (None, None) => Err(format!("{host} has no address")),
    }
}

/// Why an address is not one of the public internet.
fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "an unspecified address",
        (127, ..) => "a loopback address",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => "a private address",
        (169, 254, _) => "a link-local address",
        (192, 0, 0 | 2) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => "a reserved address",
        (224..=239, ..) => "a multicast address",
        (240.., ..) => "a reserved address",
        _ => return None,
    })
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // An IPv4 address in other clothes: mapped, translated, compatible, 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => refusal_v4(embedded(high, low)),
        [0x64, 0xff9b, ..] | [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x100, 0, 0, ..] => {
            Some("a reserved address")
        }
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_refused_in_every_form() {
        for private in [
            "127.0.0.1",
            "127.8.9.1",
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
        ] {
            let address: IpAddr = private.parse().unwrap();
            assert!(refusal(address).is_some(), "{private}");
            let problem = choose("host", &[SocketAddr::new(address, 80)], Targets::Public).unwrap_err();
            assert!(problem.contains("host is ") && problem.contains("public addresses only"), "{problem}");
            assert!(choose("host", &[SocketAddr::new(address, 80)], Targets::Any).is_ok());
        }
    }

    #[test]
    fn public_addresses_are_called() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "100.128.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "2001:4860::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::",
        ] {
            let address = SocketAddr::new(public.parse().unwrap(), 443);
            assert_eq!(choose("host", &[address], Targets::Public), Ok(address));
        }
    }

    #[test]
    fn of_several_addresses_a_public_one_is_taken() {
        let [private, public] = ["10.0.0.1:80", "1.1.1.1:80"].map(|it| it.parse::<SocketAddr>().unwrap());
        assert_eq!(choose("host", &[private, public], Targets::Public), Ok(public));
        assert!(choose("host", &[], Targets::Any).is_err());
    }

    #[tokio::test]
    async fn a_number_that_is_an_address_is_looked_at_as_one() {
        for host in ["localhost", "127.1", "0x7f000001", "2130706433", "017700000001"] {
            let resolved = resolve(host, 80, Targets::Public).await;
            assert!(resolved.is_err(), "{host}: {resolved:?}");
        }
    }
}
