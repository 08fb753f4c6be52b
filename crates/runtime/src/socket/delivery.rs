//! A socket's event passing through an object: handles its outcome, since no caller waits for an answer.

use std::time::Duration;

use super::{CloseFrame, WebSocket, code};
use crate::{Error, ErrorKind};

/// Held by the event's replier. When it is dropped, the message is no longer in flight.
pub(crate) struct Delivery {
    socket: WebSocket,
    /// The size of a message in bytes; `None` for an event of the socket's end.
    message: Option<usize>,
    /// When it was first deferred, because its object could not be created.
    put_off: Option<Duration>,
}

impl Delivery {
    /// A message that has become in-flight.
    pub(crate) fn of_message(socket: WebSocket, bytes: usize) -> Self {
        Self {
            socket,
            message: Some(bytes),
            put_off: None,
        }
    }

    /// An error or close event.
    pub(crate) fn of_end(socket: WebSocket) -> Self {
        Self {
            socket,
            message: None,
            put_off: None,
        }
    }

    pub(crate) fn is_put_off(&self) -> bool {
        self.put_off.is_some()
    }

    /// Since when it has been waiting for an object that cannot be created; from `now` on if it has not so far.
    pub(crate) fn put_off(&mut self, now: Duration) -> Duration {
        *self.put_off.get_or_insert(now)
    }

    /// The event has failed; its socket is notified later. No message queued after it may reach the object.
    pub(crate) fn interrupted(&self) {
        if self.message.is_some() {
            self.socket.link().break_off();
        }
    }

    /// The event did not reach the object, or the object was reset while handling it. A message would be lost silently,
    /// so its socket is closed: a client that reconnects can resend what was not answered.
    pub(crate) fn fail(self, error: &Error) {
        self.interrupted();
        let owner = self.socket.owner();
        tracing::warn!(
            id = %owner.id, %error, message = self.message.is_some(),
            "a WebSocket event was not handled, or not completely"
        );
        let close = match error.kind() {
            ErrorKind::Unavailable => {
                CloseFrame::of(code::SERVICE_RESTART, "the server is restarting")
            }
            ErrorKind::TooManyCreated => CloseFrame::of(
                code::TRY_AGAIN_LATER,
                "too many new objects came from this client",
            ),
            _ => CloseFrame::of(
                code::INTERNAL_ERROR,
                "the object could not handle a message",
            ),
        };
        self.socket.link().close(close);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(bytes) = self.message {
            self.socket.link().end_in_flight(bytes);
        }
    }
}
