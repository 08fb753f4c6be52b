//! Sends bodies from an object: a body that is not ready is polled by a task of the object, inside its gates.

use std::rc::Rc;

use abide_storage::MemoryUse;
use axum_core::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tokio::sync::mpsc;

use super::Object;
use crate::{
    Error, ErrorKind, MeteredBody, Reply, Response, Result,
    body::{BodyMessage, GatedBody, Tail, counted, take_ready, whole},
    envelope::Replier,
    gate::{Departure, Released},
    limits::{BODY_CHANNEL_FRAMES, BODY_RETRY, BODY_STALL_LIMIT},
};

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
                let clock = &object.worker.router.clock;
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
    let clock = &object.worker.router.clock;
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
