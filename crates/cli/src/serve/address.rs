//! Addresses and permissions, as the command line takes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    /// Each of them must be there.
    pub(super) required: Vec<IpAddr>,
    /// Each of them is left out if the machine does not have it.
    pub(super) optional: Vec<IpAddr>,
}

impl Addresses {
    /// Reads addresses that are separated by commas or spaces: `*` and `::*` are all of IPv4 and of IPv6.
    pub(super) fn parse(text: &str) -> Result<Addresses, String> {
        let mut addresses = Addresses { required: Vec::new(), optional: Vec::new() };
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            let (word, list) = match word.strip_prefix('-') {
                Some(word) => (word, &mut addresses.optional),
                None => (word, &mut addresses.required),
            };
            list.push(match word {
                "*" => Ipv4Addr::UNSPECIFIED.into(),
                "::*" => Ipv6Addr::UNSPECIFIED.into(),
                "localhost" => Ipv4Addr::LOCALHOST.into(),
                word => word.parse().map_err(|_| format!("`{word}` is no IP address"))?,
            });
        }
        match addresses.required.len() + addresses.optional.len() {
            0 => Err("no address".to_owned()),
            _ => Ok(addresses),
        }
    }

    /// Whether only the machine itself reaches all of them.
    pub(super) fn is_loopback(&self) -> bool {
        self.required.iter().chain(&self.optional).all(IpAddr::is_loopback)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let required = self.required.iter().map(ToString::to_string);
        let optional = self.optional.iter().map(|address| format!("-{address}"));
        f.write_str(&required.chain(optional).collect::<Vec<_>>().join(","))
    }
}

/// Reads permissions in octal.
pub(super) fn permissions(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("`{text}` is not between 0 and 777, in octal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_redis() {
        let of = |text: &str| Addresses::parse(text).map(|addresses| addresses.to_string());
        assert_eq!(of("127.0.0.1 -::1").unwrap(), "127.0.0.1,-::1");
        assert_eq!(of("* -::*").unwrap(), "0.0.0.0,-::");
        assert!(of("host.example").is_err() && of("").is_err());
        assert!(Addresses::parse("127.0.0.1,-::1").unwrap().is_loopback());
        assert!(!Addresses::parse("127.0.0.1,10.0.0.1").unwrap().is_loopback());
    }

    #[test]
    fn permissions_are_octal() {
        assert_eq!(permissions("770"), Ok(0o770));
        assert!(permissions("888").is_err() && permissions("1000").is_err());
    }
}
