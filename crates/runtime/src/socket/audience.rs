//! The WebSockets of an object that receive the same message.

use std::{fmt, rc::Rc};

use serde::Serialize;

use super::{Message, ReadyState, WebSocket};
use crate::{Error, Result, object::Object};

/// The open WebSockets of an object, from [`Ctx::audience`](crate::Ctx::audience): all, or those with a tag, or all
/// but one.
///
/// ```
/// # use abide_runtime as abide;
/// # use abide::{Result, Ctx, socket::WebSocket};
/// # fn says(ctx: &Ctx, player: &WebSocket, text: &str) -> Result<()> {
/// ctx.audience().tagged("red team").except(player).send(text)
/// # }
/// ```
#[derive(Clone)]
pub struct Audience {
    object: Rc<Object>,
    tag: Option<String>,
    except: Option<WebSocket>,
}

impl Audience {
    pub(crate) fn new(object: Rc<Object>) -> Self {
        Self {
            object,
            tag: None,
            except: None,
        }
    }

    /// Only those that were accepted with this tag.
    #[must_use]
    pub fn tagged(self, tag: impl Into<String>) -> Self {
        let tag = Some(tag.into());
        Self { tag, ..self }
    }

    /// All but this one.
    #[must_use]
    pub fn except(self, ws: &WebSocket) -> Self {
        let except = Some(ws.clone());
        Self { except, ..self }
    }

    /// Sends a message to each of them, as [`WebSocket::send`] does; they share its bytes. A socket that is closing does not
    /// receive it.
    ///
    /// # Errors
    /// Those of [`WebSocket::send`]. Sockets before the one that failed have received the message.
    pub fn send(&self, message: impl Into<Message>) -> Result<()> {
        let message = message.into();
        for ws in self.object.websockets(self.tag.as_deref()) {
            if self.except.as_ref() == Some(&ws) {
                continue;
            }
            match ws.send(message.clone()) {
                // One that is closing refuses the message.
                Err(error) if ws.ready_state() == ReadyState::Open => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends a value as JSON.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), or if the value cannot be represented in JSON.
    pub fn send_json<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.send(serde_json::to_string(value).map_err(Error::from_std)?)
    }
}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audience")
            .field("tag", &self.tag)
            .field("except", &self.except)
            .finish_non_exhaustive()
    }
}
