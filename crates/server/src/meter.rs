//! The memory charge of the bodies of requests and responses in the server.
//!
//! Contract: the connection's buffer for a body, and each byte of it, are charged from their arrival until the request
//! is answered, because the handler may collect the body. While the budget is used up, a body that is still arriving is
//! aborted, and its client is asked to retry; a complete one stays. A body of which nothing arrives for too long is
//! aborted, too. The content of a response is charged until the connection has written it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use abide_runtime::{Error, ErrorKind, counted_bytes};
use abide_storage::{MemoryAccount, MemoryUse};
use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

use crate::{limits, metric};

/// The received part of one request's body.
pub(crate) struct Arrival {
    memory: Arc<MemoryAccount>,
    bytes: AtomicU64,
    broken_off: AtomicBool,
    stalled: AtomicBool,
}

impl Arrival {
    /// The charge of a body that is about to arrive.
    pub(crate) fn of(body: &Body, memory: &Arc<MemoryAccount>) -> Arc<Self> {
        let most = limits::READ_BUFFER_BYTES as u64;
        let buffer = body.size_hint().upper().map_or(most, |size| size.min(most));
        memory.take(MemoryUse::Bodies, buffer);
        Arc::new(Self {
            memory: Arc::clone(memory),
            bytes: AtomicU64::new(buffer),
            broken_off: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
        })
    }

    /// Returns whether the body was aborted for lack of memory.
    pub(crate) fn has_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }

    /// Returns whether nothing of the body arrived for too long.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), Error> {
        let budget = self.memory.budget();
        if budget.is_over() {
            self.broken_off.store(true, Ordering::Relaxed);
            budget.count_refusal(MemoryUse::Bodies);
            return Err(Error::with_kind(
                ErrorKind::Overloaded,
                "the memory budget is used up; not reading the rest of the request's body",
            ));
        }
        self.memory.take(MemoryUse::Bodies, bytes as u64);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.memory.give(MemoryUse::Bodies, *self.bytes.get_mut());
    }
}

/// A request's body that is being received.
pub(crate) struct Arriving {
    body: Body,
    arrival: Arc<Arrival>,
    /// How long nothing may arrive while the body is being read.
    patience: Duration,
    /// Set only while the body is being read.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(crate) fn new(body: Body, arrival: Arc<Arrival>, patience: Duration) -> Self {
        Self {
            body,
            arrival,
            patience,
            alarm: None,
        }
    }

    /// Ready when nothing has arrived for too long.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let patience = self.patience;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(alarm.as_mut().poll(cx));
        self.body = Body::empty();
        self.arrival.stalled.store(true, Ordering::Relaxed);
        metric::gave_up("request_body");
        Poll::Ready(Error::with_kind(
            ErrorKind::Timeout,
            "no part of the request's body arrived within server.body_timeout",
        ))
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let error = ready!(self.poll_stalled(cx));
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        };
        self.alarm = None;
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
            && let Err(error) = self.arrival.take(bytes.len())
        {
            self.body = Body::empty();
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response's body whose content is charged until it is written.
pub(crate) struct Leaving {
    body: Body,
    memory: Arc<MemoryAccount>,
}

impl Leaving {
    pub(crate) fn new(body: Body, memory: Arc<MemoryAccount>) -> Self {
        Self { body, memory }
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(bytes) => Frame::data(counted_bytes(bytes, &self.memory, MemoryUse::Replies)),
                Err(frame) => frame,
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
