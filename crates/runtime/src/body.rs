//! Response bodies on their way out of an object.
//!
//! A body that is ready when the handler returns leaves with the response, in one piece. Any other is polled
//! by a task of the object, inside its gates, and each frame passes the output gate before the caller
//! sees it. A body that breaks off because its object was reset ends in an error, never as if it were whole.

use std::{
    collections::VecDeque,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use axum_core::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::{
    Error, ErrorKind, Reply, Response, Result,
    envelope::Replier,
    gate::{Departure, Released},
    limits::{BODY_CHANNEL_FRAMES, MAX_BUFFERED_BODY},
    object::Object,
};

/// Room for one message in the channel of a streamed body.
pub(crate) type FramePermit = mpsc::OwnedPermit<Released<BodyMessage>>;

/// A step of a streamed body.
pub(crate) enum BodyMessage {
    Frame(Frame<Bytes>),
    End,
    Failed(Error),
}

/// Sends a response, whole or with its body to follow.
pub(crate) fn answer(object: &Rc<Object>, replier: Replier, response: Response) {
    let (parts, mut body) = response.into_parts();
    let (ready, end) = take_ready(&mut body);
    let (body, rest) = match end {
        Some(tail) => (whole(ready, tail), None),
        None => {
            let (sender, receiver) = mpsc::channel(BODY_CHANNEL_FRAMES);
            (
                Body::new(ReplyBody {
                    ready,
                    tail: Tail::Stream(receiver),
                }),
                Some((body, sender)),
            )
        }
    };
    object.push(Departure::Reply(
        replier,
        Ok(Reply::Fetch(Response::from_parts(parts, body))),
    ));
    if let Some((body, sender)) = rest {
        let pump = pump(Rc::clone(object), body, sender);
        object.spawn_later(object.worker.next_token(), Box::pin(pump));
    }
}

/// Takes the frames that are ready now, and how the body ends if that is known already.
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
        _ => Body::new(ReplyBody { ready, tail }),
    }
}

/// Polls the rest of a body, frame by frame, as fast as the caller takes them.
async fn pump(
    object: Rc<Object>,
    mut body: Body,
    sender: mpsc::Sender<Released<BodyMessage>>,
) -> Result<()> {
    // An error of the channel means that the caller is gone.
    while let Ok(permit) = sender.clone().reserve_owned().await {
        let frame = tokio::select! {
            frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)) => frame,
            () = sender.closed() => break,
        };
        let (message, last) = match frame {
            Some(Ok(frame)) => (BodyMessage::Frame(frame), false),
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

/// What the caller reads.
struct ReplyBody {
    ready: VecDeque<Frame<Bytes>>,
    tail: Tail,
}

enum Tail {
    End,
    Failed(Error),
    Stream(mpsc::Receiver<Released<BodyMessage>>),
}

impl HttpBody for ReplyBody {
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
                    "the object was reset before its response body was complete",
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
