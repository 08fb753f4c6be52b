//! Departures: everything that leaves an object.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{EgressTask, GatePermit, OutgoingRequest, Released};
use crate::{
    Error, Reply, Result,
    body::{BodyMessage, FramePermit},
    envelope::{Envelope, Replier},
    socket::{AutoResponses, Outgoing, WebSocket},
};

/// A message leaving an object.
pub(crate) enum Departure {
    /// The answer to an event.
    Reply(Replier, Result<Reply>),
    /// A call to another object.
    Call(Envelope),
    /// An event of a socket that another object serves as its client.
    SocketEvent(Envelope),
    /// A request to another server.
    Fetch(Box<OutgoingRequest>),
    /// A piece of a streamed body.
    Body(FramePermit, BodyMessage),
    /// A frame of a WebSocket. A close needs no permit: there is one for each socket.
    Frame(WebSocket, Outgoing, Option<GatePermit>),
    /// The reply that the gateway gives on the object's sockets while the object hibernates: the setting with this
    /// number.
    AutoResponse(Arc<AutoResponses>, u64, GatePermit),
    /// A departure that was withdrawn.
    Nothing,
    /// A request for a WebSocket to another server.
    Connect(
        http::Request<()>,
        oneshot::Sender<Released<http::Request<()>>>,
    ),
    /// Only the signal that everything before it is durable.
    Synced(oneshot::Sender<Released<()>>),
}

/// Content that must not leave. Its destructor may be code of the program.
pub(crate) type Discarded = Box<dyn Send>;

impl Departure {
    /// Releases the departure. Never blocks: it may run on the log's writer thread. The returned task is code of the
    /// program, and runs where the caller decides.
    pub(super) fn release(self) -> Option<EgressTask> {
        match self {
            Self::Reply(replier, result) => replier
                .send(Released::new(result))
                .map(|reply| EgressTask::Drop(Box::new(reply))),
            Self::Call(envelope) => {
                let refusal = envelope.replier.mailbox().post(envelope).err()?;
                let Envelope { replier, event, .. } = refusal.envelope;
                replier.send(Released::new(Err(refusal.error)));
                Some(EgressTask::Drop(Box::new(event)))
            }
            Self::SocketEvent(envelope) => {
                envelope.replier.mailbox().post_admitted(envelope);
                None
            }
            Self::Fetch(request) => Some(EgressTask::Fetch(request)),
            Self::Body(permit, message) => {
                drop(permit.send(Released::new(message)));
                None
            }
            Self::Frame(socket, outgoing, permit) => {
                socket.link().release(Released::new(outgoing));
                drop(permit);
                None
            }
            Self::AutoResponse(shared, number, permit) => {
                shared.enforce(Released::new(number));
                drop(permit);
                None
            }
            Self::Nothing => None,
            Self::Connect(request, waiter) => {
                // The object may have been reset in the meantime.
                let request = waiter.send(Released::new(request)).err()?;
                Some(EgressTask::Drop(Box::new(request)))
            }
            Self::Synced(waiter) => {
                drop(waiter.send(Released::new(())));
                None
            }
        }
    }

    /// Replaces the content by an error. Returns the departure and the content.
    pub(crate) fn into_failed(self, error: Error) -> (Self, Option<Discarded>) {
        match self {
            Self::Reply(replier, content) => {
                replier.interrupted();
                let failed = Self::Reply(replier, Err(error));
                (failed, Some(Box::new(content)))
            }
            // The socket has ended regardless.
            Self::SocketEvent(envelope) if !envelope.event.is_socket_message() => {
                (Self::SocketEvent(envelope), None)
            }
            Self::Call(envelope) | Self::SocketEvent(envelope) => {
                envelope.replier.interrupted();
                let failed = Self::Reply(envelope.replier, Err(error));
                (failed, Some(Box::new(envelope.event)))
            }
            Self::Fetch(mut request) => {
                request.fail(error);
                (Self::Fetch(request), None)
            }
            Self::Body(permit, content) => {
                let failed = Self::Body(permit, BodyMessage::Failed(error));
                (failed, Some(Box::new(content)))
            }
            Self::Frame(socket, content, permit) => {
                let failed = match content.instead(&socket, &error) {
                    Some(outgoing) => Self::Frame(socket, outgoing, permit),
                    None => Self::Nothing,
                };
                (failed, Some(Box::new(content)))
            }
            // The earlier setting stays.
            Self::AutoResponse(shared, number, _) => {
                shared.withdraw(number);
                (Self::Nothing, None)
            }
            // Dropping the sender notifies the waiter.
            Self::Connect(request, _) => (Self::Nothing, Some(Box::new(request))),
            Self::Synced(_) | Self::Nothing => (Self::Nothing, None),
        }
    }
}

/// Sends a runtime error in place of an object's answer: it reveals nothing that an object wrote.
pub(crate) fn refuse(replier: Replier, error: Error) {
    let mailbox = replier.mailbox();
    mailbox.guard("the waker of a caller", || {
        replier.send(Released::new(Err(error)));
    });
}
