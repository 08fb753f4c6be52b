//! Bodies of outgoing requests and their responses.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use abide_runtime::{Body, Error, ErrorKind};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::Sleep};

/// A body that the client may share between threads. It never does, so the lock is uncontended.
pub(super) struct Shared(Mutex<Body>);

impl Shared {
    pub(super) fn new(body: Body) -> Self {
        Self(Mutex::new(body))
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let body = self.get_mut().0.get_mut();
        Pin::new(body.unwrap_or_else(PoisonError::into_inner)).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        let body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body.size_hint()
    }
}

/// A response's body: it keeps its slot until it has been read or dropped, and fails if nothing arrives for too long.
pub(super) struct Incoming {
    body: reqwest::Body,
    /// How long the server may stay silent.
    silence: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    slot: Option<OwnedSemaphorePermit>,
}

impl Incoming {
    pub(super) fn new(body: reqwest::Body, silence: Duration, slot: OwnedSemaphorePermit) -> Self {
        let slot = (!body.is_end_stream()).then_some(slot);
        Self {
            body,
            silence,
            waiting: None,
            slot,
        }
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            let waiting = this
                .waiting
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(this.silence)));
            ready!(waiting.as_mut().poll(cx));
            this.slot = None;
            return Poll::Ready(Some(Err(silent(this.silence))));
        };
        this.waiting = None;
        if !matches!(frame, Some(Ok(_))) {
            this.slot = None;
        }
        Poll::Ready(frame.map(|frame| {
            frame.map_err(|error| {
                let error = super::error::causes(&error);
                Error::with_kind(
                    ErrorKind::Io,
                    format!("the response was interrupted: {error}"),
                )
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn silent(limit: Duration) -> Error {
    Error::with_kind(
        ErrorKind::Timeout,
        format!(
            "no more of the response arrived for {} s (outbound.read_timeout)",
            limit.as_secs_f64()
        ),
    )
}
