//! The proxy that all connections of a page go through.
//!
//! Contract: Chromium resolves no name and connects to nothing but this proxy (see [`crate::browser::process`]). The proxy resolves
//! each name itself, refuses addresses that [`AddressPolicy`] forbids, and connects to the very address that it has checked, so
//! redirects, subresources, WebSockets and names that change their address are all covered. It speaks SOCKS 5 (RFC 1928), so it needs
//! to understand nothing of what it carries. Each page has its own proxy, which counts the page's bytes and ends with it.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use abide::server::{AddressPolicy, Unresolved};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use crate::limits;

/// A page's proxy. Its connections end when it is dropped.
pub struct PageProxy {
    address: SocketAddr,
    page: Arc<Page>,
    exceeded: watch::Receiver<bool>,
    _connections: JoinSet<()>,
}

/// A connection that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where to, such as `10.0.0.1:80`.
    pub target: String,
    /// Why not.
    pub reason: String,
    /// True if the address is forbidden; false if it cannot be reached.
    pub is_forbidden: bool,
}

struct Page {
    policy: AddressPolicy,
    max_bytes: u64,
    bytes: AtomicU64,
    exceeded: watch::Sender<bool>,
    refused: Mutex<Vec<Refused>>,
}

impl PageProxy {
    /// Listens on a free port of this machine.
    pub async fn open(policy: AddressPolicy, max_bytes: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (sender, exceeded) = watch::channel(false);
        let page = Arc::new(Page {
            policy,
            max_bytes,
            bytes: AtomicU64::new(0),
            exceeded: sender,
            refused: Mutex::default(),
        });
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, Arc::clone(&page)));
        Ok(Self {
            address,
            page,
            exceeded,
            _connections: connections,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes that the page has loaded.
    pub fn bytes(&self) -> u64 {
        self.page.bytes.load(Ordering::Relaxed)
    }

    /// The first connections that were refused.
    pub fn refused(&self) -> Vec<Refused> {
        self.page.refused().clone()
    }

    /// Waits until the page has loaded more than it may.
    pub async fn exceeded(&self) {
        let mut exceeded = self.exceeded.clone();
        // The sender lives as long as the page.
        let _ = exceeded.wait_for(|exceeded| *exceeded).await;
    }
}

async fn accept(listener: TcpListener, page: Arc<Page>) {
    let slots = Arc::new(Semaphore::new(limits::CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: others may close theirs.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let page = Arc::clone(&page);
        connections.spawn(async move {
            // A connection that breaks is the page's business.
            let _ = page.carry(stream).await;
            drop(slot);
        });
    }
}

impl Page {
    fn refused(&self) -> std::sync::MutexGuard<'_, Vec<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry(&self, mut client: TcpStream) -> io::Result<()> {
        let Ok(target) = timeout(limits::CONNECT_TIME, socks::target(&mut client)).await else {
            return Ok(());
        };
        let (host, port) = target?;
        match self.connect(&host, port).await {
            Ok(server) => {
                socks::reply(&mut client, socks::GRANTED).await?;
                self.copy(client, server).await
            }
            Err((code, reason)) => {
                self.note(format!("{host}:{port}"), code, reason);
                socks::reply(&mut client, code).await
            }
        }
    }

    /// Remembers a connection that was refused, once.
    fn note(&self, target: String, code: u8, reason: String) {
        let mut refused = self.refused();
        let is_known = refused.iter().any(|refused| refused.target == target);
        if refused.len() < limits::MAX_REFUSED && !is_known {
            refused.push(Refused {
                target,
                reason,
                is_forbidden: code == socks::NOT_ALLOWED,
            });
        }
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, (u8, String)> {
        let found = timeout(limits::CONNECT_TIME, self.policy.resolve(host, port)).await;
        let addresses = match found {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(Unresolved::Forbidden(error))) => {
                return Err((socks::NOT_ALLOWED, error.to_string()));
            }
            Ok(Err(error)) => return Err((socks::HOST_UNREACHABLE, error.to_string())),
            Err(_) => {
                let reason = "the name was not resolved in time".to_owned();
                return Err((socks::HOST_UNREACHABLE, reason));
            }
        };
        // These addresses have been checked; the name is not resolved again.
        match timeout(limits::CONNECT_TIME, TcpStream::connect(&*addresses)).await {
            Ok(Ok(server)) => {
                let _ = server.set_nodelay(true);
                Ok(server)
            }
            Ok(Err(error)) => Err((socks::REFUSED, error.to_string())),
            Err(_) => Err((socks::HOST_UNREACHABLE, "it does not answer".to_owned())),
        }
    }

    async fn copy(&self, client: TcpStream, server: TcpStream) -> io::Result<()> {
        let _ = client.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::try_join!(
            self.copy_one_way(from_client, to_server),
            self.copy_one_way(from_server, to_client)
        )?;
        Ok(())
    }

    async fn copy_one_way(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return to.shutdown().await;
            }
            let bytes = self.bytes.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
            if bytes > self.max_bytes {
                self.exceeded.send_replace(true);
                return Err(io::Error::other("the page has loaded more than it may"));
            }
            to.write_all(&buffer[..read]).await?;
        }
    }
}

/// The few messages of SOCKS 5 that a proxy without authentication needs.
mod socks {
    use super::{AsyncReadExt, AsyncWriteExt, Ipv4Addr, Ipv6Addr, TcpStream, io};

    pub(super) const GRANTED: u8 = 0;
    pub(super) const NOT_ALLOWED: u8 = 2;
    pub(super) const HOST_UNREACHABLE: u8 = 4;
    pub(super) const REFUSED: u8 = 5;

    const VERSION: u8 = 5;
    const NO_AUTHENTICATION: u8 = 0;
    const CONNECT: u8 = 1;

    /// Where a client wants to go.
    pub(super) async fn target(client: &mut TcpStream) -> io::Result<(String, u16)> {
        if client.read_u8().await? != VERSION {
            return Err(unexpected());
        }
        let mut methods = vec![0; client.read_u8().await?.into()];
        client.read_exact(&mut methods).await?;
        if !methods.contains(&NO_AUTHENTICATION) {
            return Err(unexpected());
        }
        client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
        let mut head = [0; 4];
        client.read_exact(&mut head).await?;
        let [VERSION, CONNECT, _, kind] = head else {
            return Err(unexpected());
        };
        let host = match kind {
            1 => Ipv4Addr::from_bits(client.read_u32().await?).to_string(),
            4 => Ipv6Addr::from_bits(client.read_u128().await?).to_string(),
            3 => {
                let mut name = vec![0; client.read_u8().await?.into()];
                client.read_exact(&mut name).await?;
                String::from_utf8(name).map_err(|_| unexpected())?
            }
            _ => return Err(unexpected()),
        };
        Ok((host, client.read_u16().await?))
    }

    /// The reply to a client, with an address that clients ignore.
    pub(super) async fn reply(client: &mut TcpStream, code: u8) -> io::Result<()> {
        client
            .write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0])
            .await
    }

    fn unexpected() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "not a SOCKS 5 request")
    }
}
