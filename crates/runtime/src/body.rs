//! Bodies that leave an object: those of its responses, and of the requests that it sends.
//!
//! A body that is ready immediately leaves with its message, in one piece. Any other body is polled by a task of the
//! object, inside its gates, and each frame passes the output gate before the reader sees it. A body that is
//! interrupted, because its object was reset or its reader stalled, ends in an error, never as if it were complete.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use abide_storage::{MemoryAccount, MemoryCharge, MemoryUse};
use axum_core::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::{
    Error, ErrorKind, Result,
    gate::Released,
    limits::{COUNTED_CONTENT, MAX_BUFFERED_BODY},
};

/// Capacity for one message in the channel of a streamed body.
pub(crate) type FramePermit = mpsc::OwnedPermit<Released<BodyMessage>>;

/// A step of a streamed body.
pub(crate) enum BodyMessage {
    Frame(Frame<Bytes>),
    End,
    Failed(Error),
}

/// Bytes of a body that are already in memory, by its size hint.
pub(crate) fn known_bytes(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// The same frame, whose bytes are charged to the memory budget until they are freed, wherever they are: at the gate,
/// with the reader, or in a connection's buffer.
pub(crate) fn counted(
    frame: Frame<Bytes>,
    memory: &Arc<MemoryAccount>,
    used_for: MemoryUse,
) -> Frame<Bytes> {
    match frame.into_data() {
        Ok(bytes) => Frame::data(counted_bytes(bytes, memory, used_for)),
        Err(frame) => frame,
    }
}

/// The same bytes, charged to the memory budget until they are freed. Short buffers are not charged.
pub fn counted_bytes(bytes: Bytes, memory: &Arc<MemoryAccount>, used_for: MemoryUse) -> Bytes {
    struct Counted(Bytes, #[allow(dead_code, reason = "held")] MemoryCharge);

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    if bytes.len() < COUNTED_CONTENT {
        return bytes;
    }
    let charge = memory.charge(used_for, bytes.len() as u64);
    Bytes::from_owner(Counted(bytes, charge))
}

/// Takes the frames that are ready now, and the end of the body if it is already known.
pub(crate) fn take_ready(body: &mut Body) -> (VecDeque<Frame<Bytes>>, Option<Tail>) {
    let mut ready = VecDeque::new();
    let mut size = 0;
    let cx = &mut Context::from_waker(Waker::noop());
    while size < MAX_BUFFERED_BODY {
        if body.is_end_stream() {
            return (ready, Some(Tail::End));
        }
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                size += frame.data_ref().map_or(0, Bytes::len);
                ready.push_back(frame);
            }
            Poll::Ready(Some(Err(error))) => return (ready, Some(Tail::Failed(error.into()))),
            Poll::Ready(None) => return (ready, Some(Tail::End)),
            Poll::Pending => break,
        }
    }
    (ready, None)
}

pub(crate) fn whole(mut ready: VecDeque<Frame<Bytes>>, tail: Tail) -> Body {
    match (ready.len(), &tail) {
        (0, Tail::End) => Body::empty(),
        (1, Tail::End) if ready[0].is_data() => Body::from(
            ready
                .pop_front()
                .and_then(|frame| frame.into_data().ok())
                .unwrap_or_default(),
        ),
        _ => Body::new(GatedBody { ready, tail }),
    }
}

/// The reader's end.
pub(crate) struct GatedBody {
    pub(crate) ready: VecDeque<Frame<Bytes>>,
    pub(crate) tail: Tail,
}

pub(crate) enum Tail {
    End,
    Failed(Error),
    Stream(mpsc::Receiver<Released<BodyMessage>>),
}

impl HttpBody for GatedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        if let Some(frame) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let message = match &mut self.tail {
            Tail::Stream(receiver) => match receiver.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(message)) => message.into_inner(),
                Poll::Ready(None) => BodyMessage::Failed(Error::with_kind(
                    ErrorKind::Reset,
                    "the object was reset before the body that it sent was complete",
                )),
            },
            Tail::End => return Poll::Ready(None),
            Tail::Failed(error) => BodyMessage::Failed(error.clone()),
        };
        Poll::Ready(match message {
            BodyMessage::Frame(frame) => Some(Ok(frame)),
            BodyMessage::End => {
                self.tail = Tail::End;
                None
            }
            BodyMessage::Failed(error) => {
                self.tail = Tail::End;
                Some(Err(error))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && matches!(self.tail, Tail::End)
    }

    fn size_hint(&self) -> SizeHint {
        let ready = self
            .ready
            .iter()
            .filter_map(Frame::data_ref)
            .map(|data| data.len() as u64)
            .sum();
        let mut hint = SizeHint::new();
        hint.set_lower(ready);
        if matches!(self.tail, Tail::End) {
            hint.set_exact(ready);
        }
        hint
    }
}
