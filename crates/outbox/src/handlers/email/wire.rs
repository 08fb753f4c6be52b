//! The connection to a relay.
//!
//! Contract: at most [`limits::MAX_RELAY_BYTES`] are read from a relay, whether its lines end or not. At most one line
//! of a received chunk is passed on at a time, so plaintext after the last line before TLS is read as the beginning of
//! TLS, which fails, and never as the reply to a command sent in TLS.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::io::{AsyncRead as _, AsyncWrite as _};
#[allow(deprecated, reason = "only this begins TLS on an existing stream")]
use lettre::transport::smtp::client::AsyncNetworkStream;
use lettre::transport::smtp::{
    self,
    client::{AsyncTokioStream, TlsParameters},
};
use tokio::{
    io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::TcpStream,
};

use crate::handlers::limits;

/// A connection to a relay, before TLS.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    /// Bytes that may still be read.
    left: usize,
}

impl Wire {
    pub(super) async fn connect(relay: (&str, u16)) -> io::Result<Self> {
        Ok(Self {
            stream: BufReader::new(TcpStream::connect(relay).await?),
            left: limits::MAX_RELAY_BYTES,
        })
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let here = ready!(Pin::new(&mut self.stream).poll_fill_buf(cx))?;
        let line = here.iter().position(|byte| *byte == b'\n');
        let line = line.map_or(here.len(), |end| end + 1);
        let taken = line.min(into.remaining());
        into.put_slice(&here[..taken]);
        Pin::new(&mut self.stream).consume(taken);
        let left = self.left.checked_sub(taken);
        self.left = left.unwrap_or(0);
        Poll::Ready(
            left.map(drop)
                .ok_or_else(|| io::Error::other("it sends too much")),
        )
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().peer_addr()
    }
}

/// A connection that has TLS from its first byte.
#[derive(Debug)]
#[allow(deprecated, reason = "only this begins TLS on an existing stream")]
pub(super) struct Tls(AsyncNetworkStream);

impl Tls {
    #[allow(deprecated, reason = "only this begins TLS on an existing stream")]
    pub(super) async fn begin(wire: Wire, tls: TlsParameters) -> Result<Self, smtp::Error> {
        let mut stream = AsyncNetworkStream::use_existing_tokio1(Box::new(wire));
        stream.upgrade_tls(tls).await?;
        Ok(Self(stream))
    }
}

impl AsyncRead for Tls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, into.initialize_unfilled());
        into.advance(ready!(read)?);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

impl AsyncTokioStream for Tls {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}
