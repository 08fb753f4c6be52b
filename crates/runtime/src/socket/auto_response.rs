//! Answers that the gateway gives in an object's name, without waking it.

use std::sync::{Arc, PoisonError, RwLock};

use bytestring::ByteString;

use crate::{Error, ErrorKind, Result, gate::Released, limits::MAX_AUTO_RESPONSE, socket::Message};

/// A text message and the text that answers it while the object sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestResponsePair {
    request: ByteString,
    response: Message,
}

impl RequestResponsePair {
    /// A pair of texts, each of at most 2,048 bytes.
    pub fn new(request: &str, response: &str) -> Result<Self> {
        for (what, text) in [("request", request), ("response", response)] {
            if text.len() > MAX_AUTO_RESPONSE {
                return Err(Error::with_kind(
                    ErrorKind::Limit,
                    format!(
                        "the {what} of a WebSocket auto-response has {} bytes; at most {MAX_AUTO_RESPONSE} are allowed",
                        text.len()
                    ),
                ));
            }
        }
        Ok(Self {
            request: request.into(),
            response: Message::from(response),
        })
    }

    /// What a client sends.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// What it gets.
    pub fn response(&self) -> &str {
        self.response.as_text().unwrap_or_default()
    }
}

/// The pair of one object, shared with the gateway's ends of its sockets.
#[derive(Default)]
pub(crate) struct AutoResponses {
    /// What the object's code has set.
    set: RwLock<Option<Arc<RequestResponsePair>>>,
    /// What has passed the object's output gate.
    in_force: RwLock<Option<Arc<RequestResponsePair>>>,
}

impl AutoResponses {
    pub(crate) fn set(&self, pair: Option<Arc<RequestResponsePair>>) {
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = pair;
    }

    pub(crate) fn get(&self) -> Option<Arc<RequestResponsePair>> {
        self.set
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn enforce(&self, pair: Released<Option<Arc<RequestResponsePair>>>) {
        *self
            .in_force
            .write()
            .unwrap_or_else(PoisonError::into_inner) = pair.into_inner();
    }

    /// What was set last did not take effect: what is in force is what is set.
    pub(crate) fn withdraw(&self) -> Option<Arc<RequestResponsePair>> {
        let in_force = self
            .in_force
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        self.set(in_force.clone());
        in_force
    }

    /// The answer to a message, if it is one that the object need not see.
    pub(crate) fn answer(&self, message: &Message) -> Option<Message> {
        let text = message.as_text()?;
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        let pair = in_force.as_ref()?;
        (pair.request() == text).then(|| pair.response.clone())
    }
}
