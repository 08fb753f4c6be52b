//! What the bodies of requests and responses take of the memory budget at the edge.
//!
//! Contract: the connection's buffer for a body, and each byte of it, count from its arrival until the request is answered, because whoever reads the
//! body may gather it. While the budget is used up a body that goes on arriving breaks off, and its client is told to come
//! back; one that has arrived stays. A body of which nothing arrives for too long while it is waited for breaks off, too. The content of a response counts until the connection has written it.

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

/// What has arrived of one request's body.
pub(crate) struct Arrival {
    memory: Arc<MemoryAccount>,
    bytes: AtomicU64,
    broken_off: AtomicBool,
    stalled: AtomicBool,
}

impl Arrival {
    /// Of a body that is about to arrive.
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

    /// True if the body broke off for want of memory.
    pub(crate) fn has_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }

    /// True if nothing of the body came for too long.
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
                "the memory budget is used up, so the rest of the request's body is not read",
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
    /// How long nothing may come while it is waited for.
    patience: Duration,
    /// Only while it is waited for.
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

    /// Ready when nothing has come for too long.
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
            "nothing of the request's body came within server.body_timeout",
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

/// A response's body whose content counts until it is written.
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
