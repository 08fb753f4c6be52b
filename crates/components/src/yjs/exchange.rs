//! Answers the messages of clients, and passes on what they change.

use std::cell::{RefCell, RefMut};

use abide::{Message, Result, Storage};

use super::{
    CUSTOM, Options, Received,
    awareness::{self, Awareness},
    lib0::Reader,
    limits,
    message::{self, NoMessage, Request},
    refusal::Refusal,
    stored::{Stored, in_use},
};
use crate::{
    broken::{Variant, broken},
    party::{Connection, Room},
};

/// A document and its clients.
pub(super) struct Exchange {
    pub(super) room: Room,
    pub(super) stored: Stored,
    /// `None` until it is needed.
    awareness: RefCell<Option<Awareness>>,
}

/// How much of an update was taken.
enum Taken {
    Whole,
    /// The rest depends on what is not there yet.
    Part,
}

impl Exchange {
    pub(super) fn open(storage: &Storage, room: &Room, options: Options) -> Result<Self> {
        Ok(Self {
            room: room.clone(),
            stored: Stored::open(storage, options)?,
            awareness: RefCell::new(None),
        })
    }

    /// Takes a message of a client.
    pub(super) fn take(
        &self,
        connection: &Connection,
        message: &Message,
    ) -> Result<Result<Received, Refusal>> {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => {
                let custom = text.strip_prefix(CUSTOM);
                let fits = custom.filter(|text| text.len() <= limits::MAX_CUSTOM_BYTES);
                let received = fits.map(|text| Received::Custom(text.to_owned()));
                return Ok(received.ok_or(Refusal::UnknownText));
            }
        };
        let limit = self.stored.options.max_message_bytes;
        if bytes.len() > limit {
            return Ok(Err(Refusal::TooLong { limit }));
        }
        let mut reader = Reader::new(bytes);
        // A frame has one message or several; an empty one is none.
        loop {
            let request = match Request::read(&mut reader) {
                Ok(request) => request,
                Err(NoMessage::Malformed) => return Ok(Err(Refusal::Malformed)),
                Err(NoMessage::Unknown(kind)) => return Ok(Err(Refusal::UnknownType(kind))),
            };
            if let Err(refusal) = self.answer(connection, request)? {
                return Ok(Err(refusal));
            }
            if reader.is_empty() {
                return Ok(Ok(Received::Done));
            }
        }
    }

    fn answer(&self, connection: &Connection, request: Request<'_>) -> Result<Result<(), Refusal>> {
        match request {
            Request::Step1(vector) => {
                let missing = self.stored.live()?.replica.beyond(vector);
                match missing {
                    Ok(update) => connection.send(message::step2(&update))?,
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Request::Step2(update) => return Ok(self.update(update)?.map(drop)),
            Request::Update(update) => match self.update(update)? {
                // Its client has what it depends on, too: ask for all of it.
                Ok(Taken::Part) if !broken(Variant::RestUnasked) => {
                    let vector = self.stored.live()?.replica.state_vector();
                    connection.send(message::step1(&vector))?;
                }
                Ok(_) => {}
                Err(refusal) => return Ok(Err(refusal)),
            },
            Request::Awareness(states) => {
                let news = self.awareness()?.update(connection, states)?;
                match news {
                    // Those who sent them hear them, too: a client that hears nothing for long takes its connection for dead.
                    Ok(Some(states)) => drop(self.room.broadcast(states, &[])),
                    Ok(None) => {}
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Request::QueryAwareness => {
                if let Some(states) = awareness::everybody(&self.room)? {
                    connection.send(states)?;
                }
            }
        }
        Ok(Ok(()))
    }

    /// Applies, stores and passes on an update.
    fn update(&self, update: &[u8]) -> Result<Result<Taken, Refusal>> {
        let mut live = self.stored.live()?;
        let applied = match live.replica.apply(update) {
            Ok(applied) => applied,
            Err(refusal) => {
                drop(live);
                self.stored.forget();
                return Ok(Err(refusal));
            }
        };
        drop(live);
        if let Some(change) = applied.change {
            if let Err(refusal) = self.stored.store(&change)? {
                return Ok(Err(refusal));
            }
            self.room.broadcast(message::update(&change), &[]);
        }
        Ok(Ok(if applied.is_cut {
            Taken::Part
        } else {
            Taken::Whole
        }))
    }

    /// The states of clients, as their connections have them.
    pub(super) fn awareness(&self) -> Result<RefMut<'_, Awareness>> {
        let mut slot = self.awareness.try_borrow_mut().map_err(|_| in_use())?;
        if slot.is_none() {
            *slot = Some(Awareness::of(&self.room)?);
        }
        RefMut::filter_map(slot, Option::as_mut).map_err(|_| in_use())
    }
}
