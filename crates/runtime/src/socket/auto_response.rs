//! Answers that the gateway gives in an object's name, without waking it.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

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
pub(crate) struct AutoResponses(RwLock<Settings>);

/// What an object has set, by number.
#[derive(Default)]
struct Settings {
    /// What has passed the object's output gate.
    in_force: Setting,
    /// What is on its way there, in order.
    on_its_way: VecDeque<(u64, Setting)>,
    newest: u64,
}

type Setting = Option<Arc<RequestResponsePair>>;

impl AutoResponses {
    /// The object's code sets a pair, or none. Returns the number to [`enforce`](Self::enforce) when that has passed the gate.
    pub(crate) fn set(&self, pair: Setting) -> u64 {
        let mut settings = self.write();
        settings.newest += 1;
        let number = settings.newest;
        settings.on_its_way.push_back((number, pair));
        number
    }

    /// What the object's code has set last.
    pub(crate) fn get(&self) -> Setting {
        let settings = self.read();
        match settings.on_its_way.back() {
            Some((_, pair)) => pair.clone(),
            None => settings.in_force.clone(),
        }
    }

    /// A setting has passed the gate.
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

    /// A setting did not take effect: those before it stand.
    pub(crate) fn withdraw(&self, number: u64) {
        let mut settings = self.write();
        settings.on_its_way.retain(|(other, _)| *other != number);
    }

    /// The answer to a message, if it is one that the object need not see.
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
