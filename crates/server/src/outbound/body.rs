//! Bodies of the responses to outgoing requests.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use abide_runtime::{Error, ErrorKind};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::{sync::OwnedSemaphorePermit, time::Sleep};

/// A response's body: it keeps its slot until it has been read or dropped, and fails if nothing arrives for too long.
pub(super) struct Incoming {
    body: hyper::body::Incoming,
    /// How long the server may stay silent.
    silence: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    slot: Option<OwnedSemaphorePermit>,
}

impl Incoming {
    pub(super) fn new(
        body: hyper::body::Incoming,
        silence: Duration,
        slot: OwnedSemaphorePermit,
    ) -> Self {
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
