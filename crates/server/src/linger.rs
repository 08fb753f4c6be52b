//! Lets a client read the response to a request whose body was not read.
//!
//! A socket that is closed with something left to read resets the connection, and the client may lose a response that it has not read
//! yet (RFC 9112, section 9.6). So after such a response, only the sending half is closed. What the client still sends is read and
//! dropped until it closes its half too, for at most [`limits::LINGER`].

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use crate::{activity::Activity, limits};

/// How much is read and dropped at a time.
const PIECE: usize = 16 << 10;

/// A connection that is not closed before its client could read the response.
pub(crate) struct Lingering<S> {
    stream: S,
    activity: Activity,
    /// Until when it lingers, once its sending half is closed.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Lingering<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        Self {
            stream,
            activity,
            until: None,
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            stream,
            activity,
            until,
        } = self.get_mut();
        let until = match until {
            Some(until) => until,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                if !activity.has_unread_body() {
                    return Poll::Ready(Ok(()));
                }
                until.insert(Box::pin(tokio::time::sleep(limits::LINGER)))
            }
        };
        let mut piece = [0; PIECE];
        while until.as_mut().poll(cx).is_pending() {
            let mut dropped = ReadBuf::new(&mut piece);
            let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut dropped));
            if read.is_err() || dropped.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
