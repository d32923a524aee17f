//! Which addresses belong to the public internet.
//!
//! Everything that a registry sets aside is not public, and neither is an address that carries
//! another one inside which is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

type Net4 = (Ipv4Addr, u8);
type Net6 = (Ipv6Addr, u8);

/// Blocks of version 4 that are nobody's on the internet.
const SPECIAL_4: &[Net4] = &[
    (Ipv4Addr::UNSPECIFIED, 8),      // this network; connects to this machine
    (Ipv4Addr::new(10, 0, 0, 0), 8), // private
    (Ipv4Addr::new(100, 64, 0, 0), 10), // shared by carriers; a cloud's metadata
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // a cloud's own services, inside each of its machines
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local; clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12), // private
    (Ipv4Addr::new(192, 0, 0, 0), 24), // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4), // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4), // reserved, broadcast
];

/// Blocks among them that no network has: they stand in documents.
const DOCUMENTATION: &[Net4] = &[
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
];

/// The only block of version 6 in which public addresses are given out.
const GLOBAL_6: Net6 = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Blocks inside it that are not public.
const SPECIAL_6: &[Net6] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments; Teredo, benchmarks
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Blocks whose last 32 bits are the address of version 4 that is meant.
const CARRIERS: &[Net6] = &[
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96), // mapped
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96), // NAT64
];

/// Whether an address is one of the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) => is_public_6(address),
    }
}

/// Whether an address can be one of this machine or of a network around it.
#[must_use]
pub fn is_inner(address: IpAddr) -> bool {
    let is_documentation = |(net, prefix): &Net4| is_within(address, IpAddr::V4(*net), *prefix);
    !is_public(address) && !DOCUMENTATION.iter().any(is_documentation)
}

fn is_public_4(address: Ipv4Addr) -> bool {
    !SPECIAL_4.iter().any(|(net, prefix)| is_within(address.into(), (*net).into(), *prefix))
}

fn is_public_6(address: Ipv6Addr) -> bool {
    let inside = |(net, prefix): &Net6| is_within(address.into(), (*net).into(), *prefix);
    if CARRIERS.iter().any(inside) {
        let [.., a, b, c, d] = address.octets();
        return is_public_4(Ipv4Addr::new(a, b, c, d));
    }
    let is_global = inside(&GLOBAL_6) && !SPECIAL_6.iter().any(inside);
    is_global && tunnelled(address).is_none_or(is_public_4)
}

/// The address of version 4 at the other end of an ISATAP tunnel (RFC 5214): `…:5efe:a.b.c.d` under
/// any prefix, with either value of the two bits that say how unique it is.
fn tunnelled(address: Ipv6Addr) -> Option<Ipv4Addr> {
    const BITS: u16 = 0x0300;
    let [.., marks, word, _, _] = address.segments();
    let [.., a, b, c, d] = address.octets();
    (marks & !BITS == 0 && word == 0x5efe).then(|| Ipv4Addr::new(a, b, c, d))
}

/// Whether an address is in a block; never across versions.
pub(super) fn is_within(address: IpAddr, net: IpAddr, prefix: u8) -> bool {
    let equal_above = |left: u128, right: u128, width: u32| {
        let low = width.saturating_sub(u32::from(prefix));
        left.checked_shr(low).unwrap_or(0) == right.checked_shr(low).unwrap_or(0)
    };
    match (address, net) {
        (IpAddr::V4(left), IpAddr::V4(right)) => {
            equal_above(left.to_bits().into(), right.to_bits().into(), 32)
        }
        (IpAddr::V6(left), IpAddr::V6(right)) => equal_above(left.to_bits(), right.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_set_aside_are_not_public() {
        let inner = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 \
            100.100.100.200 127.0.0.1 127.8.9.10 168.63.129.16 169.254.169.254 169.254.170.2 \
            172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 \
            198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 \
            255.255.255.255 :: ::1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:169.254.169.254 \
            ::ffff:10.0.0.1 ::ffff:0:8.8.8.8 64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::1 100::1 100:0:0:1::1 \
            2001::1 2001:0:4136:e378:8000:63bf:80ff:fffe 2001:2::1 2001:10::1 2001:20::1 \
            2001:db8::1 2002:7f00:1:: 2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 \
            febf::1 fec0::1 ff02::1 ff0e::1 4000::1 1fff::1 \
            2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1 2606:4700:1:2:300:5efe:a9fe:a9fe \
            2606:4700::100:5efe:192.168.0.1 fe80::5efe:8.8.8.8 2001:db8::5efe:8.8.8.8";
        for text in inner.split_whitespace() {
            let address = text.parse().unwrap();
            assert!(!is_public(address), "{text}");
            let documents = ["192.0.2.1", "198.51.100.1", "203.0.113.1"].contains(&text);
            assert_eq!(is_inner(address), !documents, "{text}");
        }
    }

    #[test]
    fn their_neighbours_are() {
        let public = "1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
            128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 \
            172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 \
            203.0.112.255 203.0.114.0 223.255.255.255 8.8.8.8 2000::1 2001:200::1 2001:4860:4860::8888 \
            2001:db7::1 2001:db9::1 2003::1 2606:4700::1111 3ffe::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 \
            2606:4700::5efe:8.8.8.8 2606:4700::200:5efe:8.8.8.8 2606:4700::400:5efe:127.0.0.1 \
            2606:4700::5eff:127.0.0.1 2606:4700:5efe:127::1";
        for text in public.split_whitespace() {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
