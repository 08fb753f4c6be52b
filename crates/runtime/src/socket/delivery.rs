//! A socket's event on its way through an object: where its outcome goes, since nobody waits for an answer.

use super::{Close, WebSocket, code};
use crate::Error;

/// Held by the event's replier. When it is dropped the message is in flight no more.
pub(crate) struct Delivery {
    socket: WebSocket,
    /// The bytes of a message; `None` for news of the socket's end.
    message: Option<usize>,
    began: bool,
}

impl Delivery {
    /// A message that has entered flight.
    pub(crate) fn of_message(socket: WebSocket, bytes: usize) -> Self {
        Self {
            socket,
            message: Some(bytes),
            began: false,
        }
    }

    /// An error or close event.
    pub(crate) fn of_end(socket: WebSocket) -> Self {
        Self {
            socket,
            message: None,
            began: false,
        }
    }

    /// The object's handler begins.
    pub(crate) fn begin(&mut self) {
        self.began = true;
    }

    /// The event has failed. A message that no handler has seen would be lost silently, so its socket is closed.
    pub(crate) fn fail(self, error: &Error) {
        if self.began {
            return;
        }
        let home = self.socket.home();
        tracing::warn!(
            id = %home.id, %error, message = self.message.is_some(),
            "a WebSocket event did not reach its object"
        );
        self.socket.link().close(Close::of(
            code::INTERNAL_ERROR,
            "the object could not take a message",
        ));
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(bytes) = self.message {
            self.socket.link().leave_flight(bytes);
        }
    }
}
