//! Answers the messages of clients, and passes on what they change.

use std::cell::{RefCell, RefMut};

use abide::{Ctx, Error, Message, Result};

use super::{
    CUSTOM, DocumentOptions, Received,
    awareness::{self, Awareness},
    lib0::Reader,
    limits,
    message::{self, NoMessage, Request},
    refusal::Refusal,
    replica::Replica,
    stored::Stored,
};
use crate::party::{Connection, Room};

/// A document and its clients.
pub(super) struct Exchange {
    pub(super) room: Room,
    pub(super) stored: Stored,
    /// `None` until it is needed.
    awareness: RefCell<Option<Awareness>>,
}

/// Whether to ask a client for what its update depends on and the document lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Unasked,
    AskedFor,
}

impl Exchange {
    pub(super) fn open(ctx: &Ctx, room: &Room, options: DocumentOptions) -> Result<Self> {
        Ok(Self {
            room: room.clone(),
            stored: Stored::open(ctx, options)?,
            awareness: RefCell::new(None),
        })
    }

    /// Takes a message of a client.
    pub(super) async fn take(
        &self,
        connection: &Connection,
        message: &Message,
    ) -> Result<Result<Received, Refusal>> {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => {
                // The answer tells the sender that earlier messages are stored.
                self.stored.in_order().await;
                let custom = text.strip_prefix(CUSTOM);
                let fits = custom.filter(|text| text.len() <= limits::MAX_CUSTOM_BYTES);
                let received = fits.map(|text| Received::Custom(text.to_owned()));
                return Ok(received.ok_or(Refusal::UnknownText));
            }
        };
        let mut reader = Reader::new(bytes);
        // A frame has one message or several; an empty frame has none.
        loop {
            let request = match Request::read(&mut reader) {
                Ok(request) => request,
                Err(NoMessage::Malformed) => return Ok(Err(Refusal::Malformed)),
                Err(NoMessage::Unknown(kind)) => return Ok(Err(Refusal::UnknownType(kind))),
            };
            if let Err(refusal) = self.answer(connection, request).await? {
                return Ok(Err(refusal));
            }
            if reader.is_empty() {
                return Ok(Ok(Received::Done));
            }
        }
    }

    async fn answer(
        &self,
        connection: &Connection,
        request: Request<'_>,
    ) -> Result<Result<(), Refusal>> {
        match request {
            Request::Step1(vector) => {
                let mut turn = match self.stored.turn().await? {
                    Ok(turn) => turn,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let vector = vector.to_vec();
                let missing = move |replica: &mut Replica| replica.beyond(&vector);
                let is_short = turn.is_short();
                match turn.work(is_short, missing).await? {
                    Ok(update) => connection.send(message::step2(&update))?,
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Request::Step2(update) => {
                return self.update(connection, update, Rest::Unasked).await;
            }
            Request::Update(update) => {
                return self.update(connection, update, Rest::AskedFor).await;
            }
            Request::Awareness(states) => {
                let news = self.awareness()?.update(connection, states)?;
                match news {
                    // The senders receive them, too: a client that receives nothing for long takes its connection for
                    // dead.
                    Ok(Some(states)) => drop(self.room.broadcast(states, &[])),
                    Ok(None) => {}
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            Request::QueryAwareness => {
                if let Some(states) = awareness::all_states(&self.room)? {
                    connection.send(states)?;
                }
            }
        }
        Ok(Ok(()))
    }

    /// Applies, stores and passes on an update.
    async fn update(
        &self,
        connection: &Connection,
        update: &[u8],
        rest: Rest,
    ) -> Result<Result<(), Refusal>> {
        let limit = self.stored.options.max_document_bytes;
        if update.len() as u64 > limit {
            return Ok(Err(Refusal::Full { limit }));
        }
        let mut turn = match self.stored.turn().await? {
            Ok(turn) => turn,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if !connection.is_open() {
            // Something that it sent before was refused.
            return Ok(Ok(()));
        }
        if may_only_read(connection)? {
            let update = update.to_vec();
            let is_short = update.len() <= limits::INLINE_UPDATE_BYTES;
            let lacks = move |replica: &mut Replica| replica.lacks(&update);
            return Ok(match turn.work(is_short, lacks).await? {
                Ok(true) => Err(Refusal::ReadOnly),
                Ok(false) => Ok(()),
                Err(refusal) => Err(refusal),
            });
        }
        let applied = match turn.apply(update).await? {
            Ok(applied) => applied,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(change) = applied.change {
            if let Err(refusal) = turn.store(&change).await? {
                return Ok(Err(refusal));
            }
            self.room.broadcast(message::update(&change), &[]);
        }
        if applied.is_cut && rest == Rest::AskedFor {
            // The client also has what its update depends on: ask for all of it.
            let vector = turn.live()?.replica.state_vector();
            connection.send(message::step1(&vector))?;
        }
        turn.compact_if_due().await?;
        Ok(Ok(()))
    }

    /// The states of clients, as their connections have them.
    pub(super) fn awareness(&self) -> Result<RefMut<'_, Awareness>> {
        let in_use = || Error::new("the awareness states are in use");
        let mut slot = self.awareness.try_borrow_mut().map_err(|_| in_use())?;
        if slot.is_none() {
            *slot = Some(Awareness::of(&self.room)?);
        }
        RefMut::filter_map(slot, Option::as_mut).map_err(|_| in_use())
    }
}

fn may_only_read(connection: &Connection) -> Result<bool> {
    awareness::is_read_only(connection)
}
