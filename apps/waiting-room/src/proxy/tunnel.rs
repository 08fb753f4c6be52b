//! Tunnels: connections that switched to WebSocket.
//!
//! Contract: what the visitor sends through a tunnel keeps the visitor's session, as requests do. A tunnel whose visitor has been silent
//! for a session is closed, so that the visitors with open tunnels are those that are counted as inside.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use crate::room::{Session, millis};

/// Carries bytes both ways until both have ended, or the visitor's session has.
pub(super) async fn carry(visitor: OnUpgrade, origin: OnUpgrade, session: Option<Session>) {
    let carried = async {
        let (visitor, origin) = tokio::try_join!(visitor, origin)?;
        let heard = Heard::now();
        let mut visitor = Listened {
            inner: TokioIo::new(visitor),
            heard: heard.clone(),
        };
        let mut origin = TokioIo::new(origin);
        let silence = async {
            match session {
                Some(session) => session.keep(|| heard.last()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = tokio::io::copy_bidirectional(&mut visitor, &mut origin) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a tunnel broke");
                }
            }
            () = silence => tracing::debug!("a tunnel was closed: its visitor was silent for a session"),
        }
        hyper::Result::Ok(())
    };
    if let Err(error) = carried.await {
        tracing::debug!(%error, "a connection did not switch protocols");
    }
}

/// When the visitor was heard last.
#[derive(Clone)]
struct Heard {
    begun: Instant,
    after_millis: Arc<AtomicU64>,
}

impl Heard {
    fn now() -> Self {
        Self {
            begun: Instant::now(),
            after_millis: Arc::default(),
        }
    }

    fn note(&self) {
        let after = millis(self.begun.elapsed());
        self.after_millis.store(after, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        let after = self.after_millis.load(Ordering::Relaxed);
        self.begun + std::time::Duration::from_millis(after)
    }
}

/// The visitor's side of a tunnel.
struct Listened<T> {
    inner: T,
    heard: Heard,
}

impl<T: AsyncRead + Unpin> AsyncRead for Listened<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.heard.note();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Listened<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
