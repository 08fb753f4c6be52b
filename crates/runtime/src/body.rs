//! Bodies that leave an object: those of its responses, and of the requests that it sends.
//!
//! A body that is ready immediately leaves with its message, in one piece. Any other body is polled by a task of the
//! object, inside its gates, and each frame passes the output gate before the reader sees it. A body that is
//! interrupted, because its object was reset or its reader stalled, ends in an error, never as if it were complete.

use std::{
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use abide_storage::{MemoryAccount, MemoryCharge, MemoryUse};
use axum_core::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::{
    Error, ErrorKind, MeteredBody, Reply, Response, Result,
    envelope::Replier,
    gate::{Departure, Released},
    limits::{
        BODY_CHANNEL_FRAMES, BODY_RETRY, BODY_STALL_LIMIT, COUNTED_CONTENT, MAX_BUFFERED_BODY,
    },
    object::Object,
};

/// Capacity for one message in the channel of a streamed body.
pub(crate) type FramePermit = mpsc::OwnedPermit<Released<BodyMessage>>;

/// A step of a streamed body.
pub(crate) enum BodyMessage {
    Frame(Frame<Bytes>),
    End,
    Failed(Error),
}

/// Sends a response, either complete or with a streamed body.
pub(crate) fn answer(object: &Rc<Object>, replier: Replier, response: Response) {
    let (mut parts, body) = response.into_parts();
    parts.extensions.insert(MeteredBody);
    let body = behind_gate(object, body, |frame| {
        counted(frame, &object.worker.mailbox.memory, MemoryUse::Replies)
    });
    let reply = body.map(|body| Reply::Fetch(Response::from_parts(parts, body)));
    object.push(Departure::Reply(replier, reply));
}

/// Bytes of a body that are already in memory, by its size hint.
pub(crate) fn known_bytes(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// The same frame, whose bytes are charged to the memory budget until they are freed, wherever they are: at the gate,
/// with the reader, or in a connection's buffer.
fn counted(frame: Frame<Bytes>, memory: &Arc<MemoryAccount>, used_for: MemoryUse) -> Frame<Bytes> {
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

/// The same body, behind the output gate of the object whose turn it is.
pub(crate) fn gated(object: &Rc<Object>, body: Body) -> Result<Body> {
    // Ready bytes count with the request.
    behind_gate(object, body, |frame| frame)
}

fn behind_gate(
    object: &Rc<Object>,
    mut body: Body,
    of_ready: impl Fn(Frame<Bytes>) -> Frame<Bytes>,
) -> Result<Body> {
    let (ready, end) = take_ready(&mut body);
    let ready = ready.into_iter().map(of_ready).collect();
    if let Some(tail) = end {
        return Ok(whole(ready, tail));
    }
    object.may_spawn()?;
    // One more than the number of waiting frames: the last place is for the end of the body.
    let (sender, receiver) = mpsc::channel(BODY_CHANNEL_FRAMES + 1);
    // It starts after the turn, so its frames follow the message sent by the turn.
    let pump = pump(Rc::clone(object), body, sender);
    object.spawn_later(object.worker.next_token(), Box::pin(pump));
    let tail = Tail::Stream(receiver);
    Ok(Body::new(GatedBody { ready, tail }))
}

/// Takes the frames that are ready now, and the end of the body if it is already known.
fn take_ready(body: &mut Body) -> (VecDeque<Frame<Bytes>>, Option<Tail>) {
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

fn whole(mut ready: VecDeque<Frame<Bytes>>, tail: Tail) -> Body {
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

/// Polls the rest of a body, frame by frame, as fast as the reader takes them.
async fn pump(
    object: Rc<Object>,
    mut body: Body,
    sender: mpsc::Sender<Released<BodyMessage>>,
) -> Result<()> {
    // An error of the channel means that the reader is gone.
    let Ok(last) = sender.clone().reserve_owned().await else {
        return Ok(());
    };
    loop {
        let permit = match sender.clone().try_reserve_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let clock = object.worker.env.clock();
                tokio::select! {
                    biased;
                    permit = sender.clone().reserve_owned() => match permit {
                        Ok(permit) => permit,
                        Err(_) => break,
                    },
                    () = clock.sleep_until(clock.now() + BODY_STALL_LIMIT) => {
                        object.push(Departure::Body(last, BodyMessage::Failed(stalled())));
                        break;
                    }
                }
            }
        };
        if !has_memory(&object, &sender).await {
            break;
        }
        let frame = tokio::select! {
            biased;
            frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)) => frame,
            () = sender.closed() => break,
        };
        let (message, last) = match frame {
            Some(Ok(frame)) => {
                let memory = &object.worker.mailbox.memory;
                let frame = counted(frame, memory, MemoryUse::Bodies);
                (BodyMessage::Frame(frame), false)
            }
            Some(Err(error)) => (BodyMessage::Failed(error.into()), true),
            None => (BodyMessage::End, true),
        };
        object.push(Departure::Body(permit, message));
        if last {
            break;
        }
    }
    Ok(())
}

/// Waits until there is memory for another frame, or the reader has taken all earlier ones. Returns false if the reader
/// is gone.
async fn has_memory(object: &Rc<Object>, sender: &mpsc::Sender<Released<BodyMessage>>) -> bool {
    // One place is for the next frame, and one for the end of the body.
    let all_taken = || sender.capacity() + 2 > BODY_CHANNEL_FRAMES;
    let clock = object.worker.env.clock();
    while object.worker.mailbox.memory.budget().is_over() && !all_taken() {
        tokio::select! {
            biased;
            () = sender.closed() => return false,
            () = clock.sleep_until(clock.now() + BODY_RETRY) => {}
        }
    }
    true
}

fn stalled() -> Error {
    Error::with_kind(
        ErrorKind::Timeout,
        format!(
            "the body was aborted: its reader took nothing for {} s",
            BODY_STALL_LIMIT.as_secs()
        ),
    )
}

/// The reader's end.
struct GatedBody {
    ready: VecDeque<Frame<Bytes>>,
    tail: Tail,
}

enum Tail {
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
