//! What a socket's object sends on it, and attaches to it.

use std::rc::Rc;

use serde::{Serialize, de::DeserializeOwned};

use super::{CloseFrame, Frame, Message, Outgoing, ReadyState, WebSocket};
use crate::{
    Error, ErrorKind, Result, context,
    gate::{Departure, GatePermit},
    limits::{GATED_OVERHEAD, MAX_ATTACHMENT},
    object::Object,
};

impl WebSocket {
    /// Sends a message, once all earlier writes of the object are durable, and after everything that it sent before. It
    /// does not wait for the reader: see [`SlowReader`](super::SlowReader).
    ///
    /// A socket whose peer has disconnected accepts messages until the object has received the close event. For many
    /// sockets create the [`Message`] once and send clones: they share its bytes.
    ///
    /// While the disk is slow, sent messages wait in memory. An object that has [256
    /// MiB](crate::limits::MAX_GATED_PER_OBJECT) waiting gets an [overloaded](Error::overloaded) error: wait with
    /// [`Storage::sync`](crate::Storage::sync) and send again.
    pub fn send(&self, message: impl Into<Message>) -> Result<()> {
        let object = self.object()?;
        if self.ready_state() != ReadyState::Open {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the WebSocket is closed, so nothing can be sent on it",
            ));
        }
        let message = message.into();
        let limit = self.owner().options().max_message_bytes;
        if message.len() > limit {
            return Err(Error::with_kind(
                ErrorKind::Limit,
                format!(
                    "the WebSocket message has {} bytes, but the limit is {limit}: send it in parts",
                    message.len()
                ),
            ));
        }
        let owner = self.owner();
        let weight = message.len() + GATED_OVERHEAD;
        let permit = GatePermit::acquire(weight, &owner.held_bytes, owner.mailbox())?;
        let mut last_sent = object.worker.last_sent.borrow_mut();
        let charge = last_sent.charge(message.as_bytes(), &owner.mailbox().memory);
        drop(last_sent);
        let outgoing = Outgoing::Frame(Frame::Message(message), Some(charge));
        object.push(Departure::Frame(self.clone(), outgoing, Some(permit)));
        Ok(())
    }

    /// Sends a value as JSON.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), or if the value cannot be represented in JSON.
    pub fn send_json<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.send(serde_json::to_string(value).map_err(Error::from_std)?)
    }

    /// Closes the socket, after everything that was sent before. The close event follows when the peer has confirmed,
    /// or after 10 s without a confirmation. Has no effect on a closed socket.
    ///
    /// The code is 1000, another of RFC 6455 that may be sent, or 3000 to 4999; the reason has at most 123 bytes.
    pub fn close(&self, code: u16, reason: &str) -> Result<()> {
        let object = self.object()?;
        if self.ready_state() != ReadyState::Open {
            return Ok(());
        }
        let close = CloseFrame::new(code, reason)?;
        self.link().closing();
        let outgoing = Outgoing::Frame(Frame::Close(close), None);
        object.push(Departure::Frame(self.clone(), outgoing, None));
        Ok(())
    }

    /// Attaches a value to the socket, in memory, for as long as the socket exists: at most 16 KiB as CBOR. It replaces
    /// the previous one immediately; a turn that fails afterwards does not undo it.
    pub fn set_attachment<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.object()?;
        let bytes = abide_storage::cbor::to_vec(value)?;
        if bytes.len() > MAX_ATTACHMENT {
            return Err(Error::with_kind(
                ErrorKind::Limit,
                format!(
                    "the WebSocket's attachment has {} bytes, but the limit is {MAX_ATTACHMENT}: keep the rest in \
                     storage and attach its key",
                    bytes.len()
                ),
            ));
        }
        self.link().attach(bytes.into());
        Ok(())
    }

    /// The last attached value, if any.
    pub fn attachment<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.object()?;
        match self.link().attachment() {
            Some(bytes) => Ok(Some(abide_storage::cbor::from_slice(&bytes)?)),
            None => Ok(None),
        }
    }

    /// The socket's object, if its code is running now.
    fn object(&self) -> Result<Rc<Object>> {
        let owner = self.owner();
        match context::current() {
            Some(object) if object.binding.key(object.id) == owner.key => {
                object.must_be_current()?;
                Ok(object)
            }
            _ => Err(Error::with_kind(
                ErrorKind::Input,
                "a WebSocket can be used only inside handlers of the object that accepted it",
            )),
        }
    }
}
