//! The header of the PROXY protocol (<https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>), versions 1 and 2:
//! the first bytes of a connection, in which a proxy names its client.
//!
//! Contract: no byte after the header is read. A connection that begins differently, or with a header longer than
//! [`limits::PROXY_HEADER`], is rejected.

use std::{io, net::SocketAddr};

use proxy_header::{ParseConfig, Protocol, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits;

/// The shortest header: `PROXY UNKNOWN\r\n`.
const SHORTEST: usize = 15;
/// The head of version 2: its signature, a command, a protocol, and the length of the rest.
const V2_HEAD: usize = 16;
/// The longest line of version 1.
const V1_LONGEST: usize = 107;
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The client of a connection whose proxy does not name one. It is not the proxy, whose word on its clients is trusted,
/// and all such connections share the limits of one client.
pub(crate) const UNNAMED: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Reads a header. `None`: the proxy connects on its own behalf, for example for a health check, or does not know its
/// client.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; SHORTEST];
    stream.read_exact(&mut header).await?;
    if header.starts_with(V2_SIGNATURE) {
        header.push(stream.read_u8().await?);
        let length = usize::from(u16::from_be_bytes([header[14], header[15]]));
        if V2_HEAD + length > limits::PROXY_HEADER {
            return Err(invalid("it is too long"));
        }
        header.resize(V2_HEAD + length, 0);
        stream.read_exact(&mut header[V2_HEAD..]).await?;
    } else if header.starts_with(b"PROXY ") {
        while !header.ends_with(b"\r\n") {
            if header.len() == V1_LONGEST {
                return Err(invalid("its line does not end"));
            }
            header.push(stream.read_u8().await?);
        }
    } else {
        return Err(invalid("it is missing"));
    }
    decode(&header).map_err(|why| invalid(&why))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("invalid PROXY protocol header: {why}"),
    )
}

/// The client named by a complete header, if any.
pub(crate) fn decode(header: &[u8]) -> Result<Option<SocketAddr>, String> {
    let read = ProxyHeader::parse(header, ParseConfig::default());
    let (read, length) = read.map_err(|error| error.to_string())?;
    if length != header.len() {
        return Err("it is truncated".to_owned());
    }
    match read.proxied_address() {
        None => Ok(None),
        Some(named) if named.protocol == Protocol::Stream => {
            let address = named.source.ip().to_canonical();
            Ok(Some(SocketAddr::new(address, named.source.port())))
        }
        Some(_) => Err("it is not for a stream protocol".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, protocol: u8, content: &[u8]) -> Vec<u8> {
        let mut header = V2_SIGNATURE.to_vec();
        header.extend([0x20 | command, protocol]);
        header.extend((content.len() as u16).to_be_bytes());
        header.extend(content);
        header
    }

    const V4: &[u8] = &[192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0, 80];

    /// Reads a header with something behind it, of which nothing must be read.
    async fn read_of(header: &[u8]) -> io::Result<Option<SocketAddr>> {
        let bytes = [header, b"GET /"].concat();
        let mut rest = &*bytes;
        let client = read(&mut rest).await?;
        assert_eq!(rest, b"GET /");
        Ok(client)
    }

    #[tokio::test]
    async fn a_header_of_either_version_names_the_client() {
        let mut v6 = [0; 36];
        v6[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
        v6[15] = 7;
        v6[33] = 9;
        let with_more = [V4, &[4, 0, 2, 7, 7]].concat();
        for (header, expected) in [
            (
                &b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n"[..],
                Some("192.0.2.1:4711"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 ::1 9 80\r\n",
                Some("[2001:db8::7]:9"),
            ),
            (
                b"PROXY TCP6 ::ffff:192.0.2.1 ::1 9 80\r\n",
                Some("192.0.2.1:9"),
            ),
            (b"PROXY UNKNOWN\r\n", None),
            (&v2(1, 0x11, V4), Some("192.0.2.1:4711")),
            (&v2(1, 0x11, &with_more), Some("192.0.2.1:4711")),
            (&v2(1, 0x21, &v6), Some("[2001:db8::7]:9")),
            (&v2(0, 0x00, &[]), None),
            (&v2(0, 0x11, V4), None),
        ] {
            let client = read_of(header).await.unwrap();
            let expected = expected.map(|text: &str| text.parse().unwrap());
            assert_eq!(client, expected, "{}", header.escape_ascii());
        }
    }

    #[tokio::test]
    async fn whatever_else_a_connection_begins_with_is_refused() {
        let endless = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
        let long = v2(1, 0x11, &[0; limits::PROXY_HEADER]);
        for header in [
            &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n",
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80 9\r\n",
            b"PROXY TCP4 192.0.2.300 10.0.0.1 4711 80\r\n",
            b"PROXY TCP9 192.0.2.1 10.0.0.1 4711 80\r\n",
            b"PROXY TCP4 evil.example 10.0.0.1 4711 80\r\n",
            b"proxy UNKNOWN\r\n  ",
            b"PROXY",
            &endless,
            &long,
            &v2(1, 0x11, &V4[..8]),
            &v2(1, 0x12, V4),
            &v2(7, 0x11, V4),
        ] {
            assert!(read_of(header).await.is_err(), "{}", header.escape_ascii());
        }
    }
}
