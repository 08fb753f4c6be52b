//! Tracks activity on connections, to close those that are idle or stalled.
//!
//! Contract: a request is open from its head until its response's body was sent or dropped; a connection without an
//! open request is idle ([`Activity`]). An HTTP/2 response is reset if the client takes none of it for a time limit,
//! while the connection and its other streams stay open ([`StreamExecutor`]). On HTTP/1 the operating system closes the
//! connection (`TCP_USER_TIMEOUT`).

use std::{
    cell::Cell,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::{Instant, Sleep};

use crate::{limits, metric};

/// The open requests of one connection. Clones share the same connection.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Mutex<Requests>>);

struct Requests {
    open: usize,
    /// When the last request ended.
    since: Instant,
    /// The readers of requests' bodies that wait for more.
    waiting: usize,
    /// Since when one waits.
    waiting_since: Instant,
    /// The body of the last request of HTTP/1 has not been read to its end.
    has_unread_body: bool,
}

/// What a connection's client or its requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// No request is open.
    Nothing,
    /// The reader of a request's body waits for more of it.
    Body { since: Instant },
    /// The client waits for a response.
    Response,
}

impl Activity {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(Requests {
            open: 0,
            since: now,
            waiting: 0,
            waiting_since: now,
            has_unread_body: false,
        })))
    }

    /// Begins a request, which ends when the returned guard is dropped.
    pub(crate) fn begin(&self) -> OpenRequest {
        self.change(|requests| requests.open += 1);
        OpenRequest(self.clone())
    }

    /// The reader of a request's body waits for more of it until the returned guard is dropped.
    pub(crate) fn wait_for_body(&self) -> BodyWait {
        self.change(|requests| {
            if requests.waiting == 0 {
                requests.waiting_since = Instant::now();
            }
            requests.waiting += 1;
        });
        BodyWait(self.clone())
    }

    /// Records that a request of HTTP/1 has a body, or that it was read to its end.
    pub(crate) fn set_unread_body(&self, is_unread: bool) {
        self.change(|requests| requests.has_unread_body = is_unread);
    }

    /// Returns whether the client may still be sending the body of a request.
    pub(crate) fn has_unread_body(&self) -> bool {
        self.change(|requests| requests.has_unread_body)
    }

    /// What is awaited now.
    pub(crate) fn awaited(&self) -> Awaited {
        self.change(|requests| match requests {
            Requests { open: 0, .. } => Awaited::Nothing,
            Requests { waiting: 0, .. } => Awaited::Response,
            _ => Awaited::Body {
                since: requests.waiting_since,
            },
        })
    }

    /// Completes when no request has been open for this long.
    pub(crate) async fn idle_for(&self, limit: Duration) {
        loop {
            let until = self.change(|requests| match requests.open {
                0 => requests.since + limit,
                _ => Instant::now() + limit,
            });
            tokio::time::sleep_until(until).await;
            let is_idle =
                self.change(|requests| requests.open == 0 && requests.since.elapsed() >= limit);
            if is_idle {
                return;
            }
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Requests) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request that is not completely received or answered.
pub(crate) struct OpenRequest(Activity);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.change(|requests| {
            requests.open -= 1;
            requests.since = Instant::now();
        });
    }
}

/// A reader of a request's body that waits for more of it.
pub(crate) struct BodyWait(Activity);

impl Drop for BodyWait {
    fn drop(&mut self) {
        self.0.change(|requests| requests.waiting -= 1);
    }
}

thread_local! {
    /// Since when the client has taken none of the response that the current task sends; `None` while there is nothing
    /// to take.
    static OFFERED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A response's body being sent to the client, with resources held until then.
pub(crate) struct Outgoing<H> {
    body: Body,
    /// The rest of a frame that is sent in pieces.
    rest: Bytes,
    /// The maximum size of a piece.
    most: usize,
    _held: H,
}

impl<H> Outgoing<H> {
    pub(crate) fn new(body: Body, version: http::Version, held: H) -> Self {
        // HTTP/2 buffers whatever it is given, and signals progress only by requesting more.
        let most = match version {
            http::Version::HTTP_2 => limits::HTTP2_PIECE,
            _ => usize::MAX,
        };
        Self {
            body,
            rest: Bytes::new(),
            most,
            _held: held,
        }
    }
}

impl<H: Unpin> HttpBody for Outgoing<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            OFFERED.set(None);
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) => self.rest = bytes,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        OFFERED.set(Some(Instant::now()));
        let piece = self.most.min(self.rest.len());
        let piece = self.rest.split_to(piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// Runs the streams of HTTP/2 connections, each in its own task.
#[derive(Clone, Copy)]
pub(crate) struct StreamExecutor {
    /// How long a client may take none of a response.
    pub(crate) patience: Duration,
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        tokio::spawn(Stream {
            future: Box::pin(stream),
            patience: self.patience,
            offered: None,
            alarm: None,
        });
    }
}

struct Stream<F> {
    future: Pin<Box<F>>,
    patience: Duration,
    offered: Option<Instant>,
    /// Set only while the client stalls.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Stream<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        OFFERED.set(self.offered);
        if self.future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.offered = OFFERED.get();
        let Some(since) = self.offered else {
            self.alarm = None;
            return Poll::Pending;
        };
        let until = since + self.patience;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if alarm.deadline() != until {
            alarm.as_mut().reset(until);
        }
        ready!(alarm.as_mut().poll(cx));
        metric::gave_up("stalled_reader");
        tracing::debug!("a client took none of a response in time; resetting its stream");
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_connection_is_idle_from_the_end_of_its_last_request_on() {
        let activity = Activity::new();
        let begun = Instant::now();
        let request = activity.begin();
        let ends = async {
            tokio::time::sleep(LIMIT * 10).await;
            drop(request);
        };
        tokio::join!(activity.idle_for(LIMIT), ends);
        assert!(begun.elapsed() >= LIMIT * 11);
    }

    #[test]
    fn a_long_frame_goes_out_in_pieces_over_http_2_and_whole_over_http_1() {
        for (version, pieces) in [(http::Version::HTTP_2, 4), (http::Version::HTTP_11, 1)] {
            let content = vec![7; limits::HTTP2_PIECE * 3 + 1];
            let mut body = Outgoing::new(Body::from(content.clone()), version, ());
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut got: Vec<Bytes> = Vec::new();
            while !body.is_end_stream() {
                let so_far: usize = got.iter().map(Bytes::len).sum();
                let left = (content.len() - so_far) as u64;
                assert_eq!(body.size_hint().exact(), Some(left));
                let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else {
                    panic!("a frame is there");
                };
                got.push(frame.into_data().unwrap());
            }
            assert_eq!((got.len(), got.concat()), (pieces, content));
        }
    }
}
