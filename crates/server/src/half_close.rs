//! Answers clients that close their half of the connection after their request.
//!
//! Contract: while a request is open, the end of what its client sends is hidden from the protocol, which would give up
//! the request, until a part of the response has not been written for [`limits::HALF_CLOSED`]. A client that closes
//! both halves looks the same until something is sent to it, so this also bounds how long its request is kept. A
//! reset connection, and an end in the middle of a request's body, end the request at once.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use crate::{
    activity::{Activity, Awaited, BodyWait},
    limits,
};

/// A connection that is still written to when its client has closed the other half.
pub(crate) struct HalfClose<S> {
    stream: S,
    activity: Activity,
    patience: Duration,
    /// When the client closed its half, or last took something after that.
    closed: Option<Instant>,
    /// The client does not take what is to be written.
    is_blocked: bool,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> HalfClose<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        Self {
            stream,
            activity,
            patience: limits::HALF_CLOSED,
            closed: None,
            is_blocked: false,
            alarm: None,
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// When the end of what the client sends is reported; `None`: now.
    fn reported_at(&self, closed: Instant) -> Option<Instant> {
        match self.activity.awaited() {
            Awaited::Nothing if !self.is_blocked => None,
            Awaited::Body { since } => Some(since.max(closed) + limits::BODY_MOMENT),
            Awaited::Nothing | Awaited::Response => Some(closed + self.patience),
        }
    }

    /// Ready when the end of what the client sends is reported.
    fn poll_end(&mut self, closed: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.reported_at(closed) else {
            return Poll::Ready(());
        };
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(cx)
    }

    /// Records what has become of a write.
    fn wrote<T>(&mut self, outcome: Poll<T>, cx: &Context<'_>) -> Poll<T> {
        let was_blocked = std::mem::replace(&mut self.is_blocked, outcome.is_pending());
        if let Some(closed) = &mut self.closed
            && outcome.is_ready()
        {
            *closed = Instant::now();
            if was_blocked {
                cx.waker().wake_by_ref();
            }
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HalfClose<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = match this.closed {
            Some(closed) => closed,
            None => {
                let room = buf.remaining();
                ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
                if buf.remaining() < room || room == 0 {
                    return Poll::Ready(Ok(()));
                }
                *this.closed.insert(Instant::now())
            }
        };
        this.poll_end(closed, cx).map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HalfClose<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(outcome, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.wrote(outcome, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// A request's body that is being received: while its reader waits, the end of the connection is the end of the body.
pub(crate) struct Receiving {
    body: Incoming,
    activity: Activity,
    wait: Option<BodyWait>,
}

impl Receiving {
    pub(crate) fn new(body: Incoming, activity: Activity) -> Self {
        Self {
            body,
            activity,
            wait: None,
        }
    }
}

impl HttpBody for Receiving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            self.wait = None;
            if self.body.is_end_stream() {
                self.activity.set_unread_body(false);
            }
        } else if self.wait.is_none() {
            self.wait = Some(self.activity.wait_for_body());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::timeout,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(40);

    /// A connection whose client has closed its half, and the client.
    async fn half_closed(activity: &Activity) -> (HalfClose<DuplexStream>, DuplexStream) {
        let (mut client, server) = duplex(4);
        client.shutdown().await.unwrap();
        let mut server = HalfClose::new(server, activity.clone());
        server.patience = PATIENCE;
        (server, client)
    }

    /// Reads until the end is reported.
    async fn end(server: &mut HalfClose<DuplexStream>) {
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn the_end_is_hidden_while_a_request_is_open_but_not_for_long() {
        let activity = Activity::new();
        let (mut server, mut client) = half_closed(&activity).await;
        let request = activity.begin();
        assert!(timeout(PATIENCE / 2, end(&mut server)).await.is_err());
        // A part of the response gives it more time.
        let written = Instant::now();
        server.write_all(b"part").await.unwrap();
        end(&mut server).await;
        assert!(written.elapsed() >= PATIENCE);
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 4);
        drop(request);
    }

    #[tokio::test]
    async fn the_end_is_reported_when_the_response_is_written() {
        let activity = Activity::new();
        let (mut server, mut client) = half_closed(&activity).await;
        server.patience = Duration::from_mins(1);
        let request = activity.begin();
        let mut rest = &b"response"[..];
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while Pin::new(&mut server).poll_write(&mut cx, rest).is_ready() {
            rest = &rest[4..];
        }
        drop(request);
        assert!(
            timeout(PATIENCE, end(&mut server)).await.is_err(),
            "blocked"
        );
        assert_eq!(client.read(&mut [0; 4]).await.unwrap(), 4);
        server.write_all(rest).await.unwrap();
        end(&mut server).await;
    }

    #[tokio::test]
    async fn the_end_of_a_body_that_is_read_is_reported_soon() {
        let activity = Activity::new();
        let (mut server, _client) = half_closed(&activity).await;
        server.patience = Duration::from_mins(1);
        let _request = activity.begin();
        let wait = activity.wait_for_body();
        drop(wait);
        assert!(timeout(PATIENCE, end(&mut server)).await.is_err(), "read");
        let _wait = activity.wait_for_body();
        end(&mut server).await;
    }
}
