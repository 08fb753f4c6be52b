//! Replies that the gateway sends on an object's behalf, without waking it.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use bytestring::ByteString;

use crate::{Error, ErrorKind, Result, gate::Released, limits::MAX_AUTO_RESPONSE, socket::Message};

/// A text message and the reply sent while the object hibernates.
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
                        "the {what} of a WebSocket auto-response has {} bytes, but the limit is {MAX_AUTO_RESPONSE}",
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

    /// The client's message.
    pub fn request(&self) -> &str {
        &self.request
    }

    /// The reply.
    pub fn response(&self) -> &str {
        self.response.as_text().unwrap_or_default()
    }
}

/// The pair of one object, shared with the gateway's ends of its sockets.
#[derive(Default)]
pub(crate) struct AutoResponses(RwLock<Settings>);

/// An object's settings, by number.
#[derive(Default)]
struct Settings {
    /// The setting that has passed the object's output gate.
    in_force: Setting,
    /// Settings at the output gate, in order.
    on_its_way: VecDeque<(u64, Setting)>,
    newest: u64,
}

type Setting = Option<Arc<RequestResponsePair>>;

impl AutoResponses {
    /// Sets a pair, or removes it. Returns the number to pass to [`enforce`](Self::enforce) once it has passed the
    /// gate.
    pub(crate) fn set(&self, pair: Setting) -> u64 {
        let mut settings = self.write();
        settings.newest += 1;
        let number = settings.newest;
        settings.on_its_way.push_back((number, pair));
        number
    }

    /// The latest setting of the object's code.
    pub(crate) fn get(&self) -> Setting {
        let settings = self.read();
        match settings.on_its_way.back() {
            Some((_, pair)) => pair.clone(),
            None => settings.in_force.clone(),
        }
    }

    /// Puts a setting into force that has passed the gate.
    pub(crate) fn enforce(&self, number: Released<u64>) {
        let number = number.into_inner();
        let mut settings = self.write();
        while let Some((_, pair)) = settings
            .on_its_way
            .pop_front_if(|(other, _)| *other <= number)
        {
            settings.in_force = pair;
        }
    }

    /// Withdraws a setting that did not take effect: earlier ones stay.
    pub(crate) fn withdraw(&self, number: u64) {
        let mut settings = self.write();
        settings.on_its_way.retain(|(other, _)| *other != number);
    }

    /// The reply to a message, if the object need not see it.
    pub(crate) fn answer(&self, message: &Message) -> Option<Message> {
        let text = message.as_text()?;
        let settings = self.read();
        let pair = settings.in_force.as_ref()?;
        (pair.request() == text).then(|| pair.response.clone())
    }

    fn read(&self) -> RwLockReadGuard<'_, Settings> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Settings> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
