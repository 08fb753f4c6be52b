//! A Yjs client without a connection: what it says, and what it makes of what it hears. It is made of `yrs`' own protocol, which
//! the server does not use.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use yrs::{
    Doc, GetString, OffsetKind, Options, ReadTxn, StateVector, Text, TextRef, Transact, Update,
    block::ClientID,
    encoding::read::Cursor,
    sync::{
        AwarenessUpdate, Message, SyncMessage, awareness::AwarenessUpdateEntry,
        protocol::MessageReader,
    },
    updates::{
        decoder::{Decode, DecoderV1},
        encoder::Encode,
    },
};

/// A client with a text, `content`.
pub(crate) struct YjsClient {
    pub(crate) doc: Doc,
    text: TextRef,
    clock: u32,
    /// States of others, and its own when it came back.
    pub(crate) states: BTreeMap<u64, String>,
    /// Updates that were heard.
    pub(crate) updates: u32,
    /// Whether the server has answered the first step.
    pub(crate) is_synced: bool,
}

impl YjsClient {
    pub(crate) fn new(id: u64) -> Self {
        let doc = Doc::with_options(Options {
            client_id: ClientID::new(id),
            offset_kind: OffsetKind::Utf16,
            ..Options::default()
        });
        Self {
            text: doc.get_or_insert_text("content"),
            doc,
            clock: 0,
            states: BTreeMap::new(),
            updates: 0,
            is_synced: false,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.doc.client_id().get()
    }

    /// What it says when it is connected.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        self.is_synced = false;
        self.states.clear();
        let vector = self.doc.transact().state_vector();
        Message::Sync(SyncMessage::SyncStep1(vector)).encode_v1()
    }

    /// Everything that it has, as an unrequested update.
    pub(crate) fn everything(&self) -> Vec<u8> {
        let transaction = self.doc.transact();
        let update = transaction.encode_state_as_update_v1(&StateVector::default());
        Message::Sync(SyncMessage::Update(update)).encode_v1()
    }

    /// What it makes of a frame, and answers.
    pub(crate) fn hear(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut decoder = DecoderV1::new(Cursor::new(frame));
        let messages: Vec<_> = MessageReader::new(&mut decoder).collect();
        assert!(!messages.is_empty(), "{frame:?}");
        let mut answers = Vec::new();
        for message in messages {
            match message.expect("the server speaks the protocol") {
                Message::Sync(SyncMessage::SyncStep1(vector)) => {
                    let update = self.doc.transact().encode_state_as_update_v1(&vector);
                    answers.push(Message::Sync(SyncMessage::SyncStep2(update)).encode_v1());
                }
                Message::Sync(SyncMessage::SyncStep2(update)) => {
                    self.is_synced = true;
                    self.apply(&update);
                }
                Message::Sync(SyncMessage::Update(update)) => {
                    self.apply(&update);
                    self.updates += 1;
                }
                Message::Awareness(update) => {
                    for (client, entry) in update.clients {
                        if &*entry.json == "null" {
                            self.states.remove(&client.get());
                        } else {
                            self.states.insert(client.get(), entry.json.to_string());
                        }
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        answers
    }

    fn apply(&self, update: &[u8]) {
        let update = Update::decode_v1(update).expect("the server sends updates");
        let mut transaction = self.doc.transact_mut();
        transaction.apply_update(update).expect("it fits");
        // Before the server has answered, changes of others may depend on what its answer brings.
        let is_whole = !transaction.has_missing_updates();
        assert!(is_whole || !self.is_synced, "a gap");
    }

    /// Writes into the text; what it says then.
    pub(crate) fn insert(&mut self, at: u32, text: &str) -> Vec<u8> {
        let mut transaction = self.doc.transact_mut();
        self.text.insert(&mut transaction, at, text);
        Message::Sync(SyncMessage::Update(transaction.encode_update_v1())).encode_v1()
    }

    /// Deletes from the text; what it says then.
    pub(crate) fn remove(&mut self, at: u32, length: u32) -> Vec<u8> {
        let mut transaction = self.doc.transact_mut();
        self.text.remove_range(&mut transaction, at, length);
        Message::Sync(SyncMessage::Update(transaction.encode_update_v1())).encode_v1()
    }

    /// Its own state, anew.
    pub(crate) fn state(&mut self, json: &str) -> Vec<u8> {
        self.clock += 1;
        Self::state_of(self.id(), self.clock, json)
    }

    /// The state of a client.
    pub(crate) fn state_of(client: u64, clock: u32, json: &str) -> Vec<u8> {
        let entry = AwarenessUpdateEntry {
            clock,
            json: json.into(),
        };
        let clients = [(ClientID::new(client), entry)].into();
        Message::Awareness(AwarenessUpdate { clients }).encode_v1()
    }

    pub(crate) fn text(&self) -> String {
        self.text.get_string(&self.doc.transact())
    }

    pub(crate) fn length(&self) -> u32 {
        self.text.len(&self.doc.transact())
    }
}
