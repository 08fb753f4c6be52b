//! A TCP connection to one of several addresses of a host.
//!
//! Contract: as in "Happy Eyeballs" (RFC 8305), an address that does not answer delays the connection by
//! [`limits::CONNECT_STAGGER`], and one that refuses does not delay it. The first connection is kept, and the others are
//! dropped.

use std::{io, iter, net::SocketAddr};

use futures_util::{StreamExt, stream::FuturesUnordered};
use rustix::net::sockopt;
use tokio::{net::TcpStream, time::timeout};

use crate::limits;

/// Connects to one of these addresses, which are in the order of preference.
pub(super) async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let stream = first(alternating(addresses), TcpStream::connect::<SocketAddr>).await?;
    stream.set_nodelay(true)?;
    notice_silence(&stream)?;
    Ok(stream)
}

/// Has the kernel end the connection if the server's machine vanishes.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, limits::TCP_PROBE)?;
    sockopt::set_tcp_keepintvl(stream, limits::TCP_PROBE)?;
    sockopt::set_tcp_keepcnt(stream, limits::TCP_PROBES)?;
    Ok(())
}

/// The first connection that is established. If there is none: the last error.
async fn first<T, F: Future<Output = io::Result<T>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut untried = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        attempts.extend(untried.next().map(&connect));
        let ended = if untried.len() == 0 {
            attempts.next().await
        } else if let Ok(ended) = timeout(limits::CONNECT_STAGGER, attempts.next()).await {
            ended
        } else {
            continue;
        };
        match ended {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(failed)) => error = failed,
            None => return Err(error),
        }
    }
}

/// IPv4 and IPv6 in turn, beginning with the family that the resolver prefers, so that one that does not work here costs
/// little.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (these, others): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == preferred);
    let mut others = others.into_iter();
    let mut turns: Vec<_> = these
        .into_iter()
        .flat_map(|address| iter::once(address).chain(others.next()))
        .collect();
    turns.extend(others);
    turns.truncate(limits::CONNECT_ADDRESSES);
    turns
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future};

    use tokio::net::TcpListener;

    use super::*;

    fn addresses(hosts: &[&str]) -> Vec<SocketAddr> {
        let parse = |host: &&str| SocketAddr::new(host.parse().unwrap(), 80);
        hosts.iter().map(parse).collect()
    }

    /// Tries these addresses: `192.0.2.1` and `2001:db8::1` never answer, `192.0.2.2` refuses, and the others answer.
    /// Returns the tried ones too.
    async fn reach(hosts: &[&str]) -> (io::Result<SocketAddr>, Vec<SocketAddr>) {
        let tried = RefCell::new(Vec::new());
        let reached = first(addresses(hosts), |address| {
            tried.borrow_mut().push(address);
            async move {
                match &*address.ip().to_string() {
                    "192.0.2.1" | "2001:db8::1" => future::pending().await,
                    "192.0.2.2" => Err(io::ErrorKind::ConnectionRefused.into()),
                    _ => Ok(address),
                }
            }
        })
        .await;
        (reached, tried.into_inner())
    }

    #[tokio::test]
    async fn a_dead_address_delays_the_next_a_little() {
        for (hosts, tries) in [
            (&["10.0.0.1", "10.0.0.2"][..], 1),
            (&["192.0.2.2", "10.0.0.1"], 2),
            (&["192.0.2.1", "10.0.0.1"], 2),
            (&["2001:db8::1", "192.0.2.1", "fd00::1"], 3),
            (&["192.0.2.1", "192.0.2.2", "10.0.0.1"], 3),
        ] {
            let (reached, tried) = reach(hosts).await;
            assert_eq!(tried, addresses(&hosts[..tries]));
            assert_eq!(reached.unwrap(), tried[tries - 1]);
        }
        for (hosts, kind) in [
            (
                &["192.0.2.2", "192.0.2.2"][..],
                io::ErrorKind::ConnectionRefused,
            ),
            (&[], io::ErrorKind::AddrNotAvailable),
        ] {
            assert_eq!(reach(hosts).await.0.unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn the_families_take_turns_and_there_are_not_too_many_addresses() {
        let mixed = addresses(&["fd00::1", "fd00::2", "fd00::3", "10.0.0.1", "10.0.0.2"]);
        let turns = ["fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2", "fd00::3"];
        assert_eq!(alternating(mixed), addresses(&turns));
        let unequal = addresses(&["10.0.0.1", "fd00::1", "fd00::2"]);
        assert_eq!(alternating(unequal.clone()), unequal);
        let many = vec![unequal[0]; 100];
        assert_eq!(alternating(many).len(), limits::CONNECT_ADDRESSES);
    }

    #[tokio::test]
    async fn a_connection_is_made_to_the_address_that_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let closed = SocketAddr::new("127.0.0.2".parse().unwrap(), here.port());
        let stream = connect(vec![closed, here]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), here);
    }
}
