//! The addresses that objects may reach.
//!
//! Contract: apart from the exceptions in `outbound.allow_private`, nothing is sent to an address outside the public
//! internet: this machine, private networks, link-local addresses (where clouds have their metadata service), and
//! everything else in IANA's registries of special-purpose addresses
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>); and the address of one cloud's service for its
//! machines. The check applies to the address that is connected to: names are resolved here, and only permitted
//! addresses are passed on, so a name that changes its address between check and connection gains nothing. An IPv6
//! address that embeds an IPv4 address is checked as that.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use thiserror::Error;

/// The addresses outside the public internet that objects may reach. Parsed from `true`, `false`, or addresses and
/// blocks of them, separated by commas (`10.0.0.0/8, 127.0.0.1`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowPrivate {
    /// None.
    #[default]
    None,
    /// The addresses in these blocks.
    Blocks(Vec<AddressBlock>),
    /// All.
    All,
}

/// A block of addresses with the same prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: IpAddr,
    bits: u32,
}

impl AllowPrivate {
    /// These addresses and one more.
    #[must_use]
    pub fn and(self, address: IpAddr) -> Self {
        let block = AddressBlock::of(address);
        match self {
            Self::None => Self::Blocks(vec![block]),
            Self::Blocks(mut blocks) => {
                blocks.push(block);
                Self::Blocks(blocks)
            }
            Self::All => Self::All,
        }
    }
}

impl FromStr for AllowPrivate {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "true" => Ok(Self::All),
            "false" => Ok(Self::None),
            blocks => blocks
                .split(',')
                .map(|block| block.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self::Blocks),
        }
    }
}

impl FromStr for AddressBlock {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits.parse().map_err(drop)?)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(drop)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { first, bits }).ok_or(())
    }
}

impl AddressBlock {
    const fn v4(first: Ipv4Addr, bits: u32) -> Self {
        let first = IpAddr::V4(first);
        Self { first, bits }
    }

    const fn v6(first: [u16; 8], bits: u32) -> Self {
        let first = IpAddr::V6(Ipv6Addr::from_segments(first));
        Self { first, bits }
    }

    const fn of(address: IpAddr) -> Self {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self {
            first: address,
            bits,
        }
    }

    /// Whether an address lies in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let different = first.to_bits() ^ address.to_bits();
                different.leading_zeros() >= self.bits
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let different = first.to_bits() ^ address.to_bits();
                different.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

/// Decides which addresses may be reached. A program that connects to addresses which its clients choose, without the host's
/// own clients, resolves and checks them here: [`AddressPolicy::new`] with `config.outbound.allow_private`.
#[derive(Clone, Debug)]
pub struct AddressPolicy {
    allow_private: AllowPrivate,
}

/// An address that objects may not reach.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the address {address} is outside the public internet ({what}): to let objects reach it, use the setting \
     outbound.allow_private"
)]
pub struct ForbiddenAddress {
    address: IpAddr,
    what: &'static str,
}

/// Why a host cannot be connected to.
#[derive(Debug, Error)]
pub enum Unresolved {
    /// It has no address.
    #[error("the name cannot be resolved: {0}")]
    Name(#[from] io::Error),
    /// Its addresses may not be reached.
    #[error(transparent)]
    Forbidden(#[from] ForbiddenAddress),
}

impl AddressPolicy {
    /// The policy that a setting describes.
    pub fn new(allow_private: AllowPrivate) -> Self {
        Self { allow_private }
    }

    /// Rejects an address that objects may not reach.
    pub fn check(&self, address: IpAddr) -> Result<(), ForbiddenAddress> {
        let address = address.to_canonical();
        let Some(what) = special(address) else {
            return Ok(());
        };
        let allowed = match &self.allow_private {
            AllowPrivate::None => false,
            AllowPrivate::Blocks(blocks) => blocks.iter().any(|block| block.contains(address)),
            AllowPrivate::All => true,
        };
        if allowed {
            Ok(())
        } else {
            Err(ForbiddenAddress { address, what })
        }
    }

    /// The addresses of a host that objects may reach; an error if there is none. Connect to one of these, not to the name: it
    /// may resolve to another address the next time.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Unresolved> {
        self.permitted(tokio::net::lookup_host((host, port)).await?)
    }

    fn permitted(
        &self,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Unresolved> {
        let mut forbidden = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.check(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(error) => forbidden = Some(error),
            }
        }
        match forbidden {
            Some(error) if allowed.is_empty() => Err(error.into()),
            _ if allowed.is_empty() => {
                Err(io::Error::new(io::ErrorKind::NotFound, "it has no address").into())
            }
            _ => Ok(allowed),
        }
    }
}

/// Blocks of addresses outside the public internet, and their purposes.
const SPECIAL: &[(AddressBlock, &str)] = &[
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(100, 64, 0, 0, 10), "shared by a carrier's customers"),
    (v4(127, 0, 0, 0, 8), "this machine"),
    // Not in any registry: <https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>.
    (
        v4(168, 63, 129, 16, 32),
        "a cloud's service for its machines",
    ),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 0, 0, 0, 24), "protocol assignments"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(192, 88, 99, 0, 24), "6to4 relays"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(198, 18, 0, 0, 15), "benchmarks"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "this network"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "this machine"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
    (
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
        "protocol assignments",
    ),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation"),
];

/// The block of public IPv6 addresses.
const GLOBAL_V6: AddressBlock = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Blocks of IPv6 addresses that embed an IPv4 address, and the length of the prefix before it: translation by NAT64
/// (RFC 6052) and 6to4 (RFC 3056). Mapped addresses (RFC 4291) have already been converted to IPv4.
const CARRIES_V4: &[(AddressBlock, u32)] = &[
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), 96),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), 16),
];

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32) -> AddressBlock {
    AddressBlock::v4(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(first: [u16; 8], bits: u32) -> AddressBlock {
    AddressBlock::v6(first, bits)
}

/// The purpose of an address outside the public internet.
fn special(address: IpAddr) -> Option<&'static str> {
    if let IpAddr::V6(v6) = address
        && let Some((_, before)) = CARRIES_V4.iter().find(|(block, _)| block.contains(address))
    {
        let carried = (v6.to_bits() >> (96 - before)) as u32;
        return special(Ipv4Addr::from_bits(carried).into());
    }
    let known = SPECIAL.iter().find(|(block, _)| block.contains(address));
    match known {
        Some((_, what)) => Some(what),
        None if address.is_ipv6() && !GLOBAL_V6.contains(address) => Some("reserved"),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_address_is_allowed_beside_the_others() {
        let (own, other): (IpAddr, IpAddr) =
            ("127.0.0.1".parse().unwrap(), "10.1.2.3".parse().unwrap());
        for (text, before) in [("false", false), ("10.0.0.0/8", true), ("true", true)] {
            let allowed: AllowPrivate = text.parse().unwrap();
            let policy = AddressPolicy::new(allowed.and(own));
            assert_eq!(policy.check(own), Ok(()), "{text}");
            assert_eq!(policy.check(other).is_ok(), before, "{text}");
        }
    }

    #[test]
    fn addresses_of_the_public_internet_pass_and_no_others() {
        let policy = AddressPolicy::new(AllowPrivate::None);
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.167.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(policy.check(public.parse().unwrap()), Ok(()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            let address = private.parse().unwrap();
            assert!(policy.check(address).is_err(), "{private}");
            assert_eq!(AddressPolicy::new(AllowPrivate::All).check(address), Ok(()));
        }
    }

    #[test]
    fn a_refusal_names_the_address_and_the_setting() {
        let policy = AddressPolicy::new(AllowPrivate::None);
        let error = policy.check("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(
            error.unwrap_err().to_string(),
            "the address 10.0.0.1 is outside the public internet (private): to let objects reach it, use the \
             setting outbound.allow_private"
        );
    }

    #[test]
    fn blocks_of_private_addresses_can_be_allowed() {
        let some = AddressPolicy::new("10.0.0.0/8, 127.0.0.1,fd00::/8".parse().unwrap());
        for (address, allowed) in [
            ("10.9.8.7", true),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("fd12::1", true),
            ("127.0.0.2", false),
            ("169.254.169.254", false),
            ("fc00::1", false),
        ] {
            let checked = some.check(address.parse().unwrap());
            assert_eq!(checked.is_ok(), allowed, "{address}");
        }
        for bad in [
            "",
            "yes",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.1,",
            "a/8",
        ] {
            assert!(bad.parse::<AllowPrivate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn of_a_name_s_addresses_only_the_permitted_ones_are_reached() {
        let policy = AddressPolicy::new(AllowPrivate::None);
        let (public, private): (SocketAddr, SocketAddr) = (
            "1.1.1.1:80".parse().unwrap(),
            "10.0.0.1:80".parse().unwrap(),
        );
        for found in [[public, private], [private, public]] {
            assert_eq!(policy.permitted(found.into_iter()).unwrap(), [public]);
        }
        let error = policy.permitted([private].into_iter());
        assert!(matches!(error, Err(Unresolved::Forbidden(_))), "{error:?}");
        let error = policy.permitted([].into_iter());
        assert!(matches!(error, Err(Unresolved::Name(_))), "{error:?}");
    }

    #[tokio::test]
    async fn a_name_of_this_machine_resolves_to_nothing_that_may_be_reached() {
        let error = AddressPolicy::new(AllowPrivate::None)
            .resolve("localhost", 80)
            .await;
        assert!(matches!(error, Err(Unresolved::Forbidden(_))), "{error:?}");
        let found = AddressPolicy::new(AllowPrivate::All)
            .resolve("localhost", 80)
            .await;
        assert!(found.unwrap().iter().all(|address| address.port() == 80));
    }
}
