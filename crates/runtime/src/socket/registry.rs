//! The sockets of a worker's objects. The registry belongs to the worker, so they outlive their objects in memory.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use abide_storage::ObjectKey;
use rustc_hash::FxHashMap;

use super::{AutoResponses, WebSocket};
use crate::{Error, ErrorKind, Result, gate::HeldBytes, limits::MAX_WEBSOCKETS_PER_OBJECT};

#[derive(Default)]
pub(crate) struct Registry(RefCell<FxHashMap<ObjectKey, ObjectSockets>>);

/// Sockets by serial number, which is the order of acceptance.
type Sockets = BTreeMap<u64, WebSocket>;

#[derive(Default)]
struct ObjectSockets {
    all: Sockets,
    tagged: FxHashMap<Arc<str>, Sockets>,
    auto_responses: Arc<AutoResponses>,
    held_bytes: Arc<HeldBytes>,
}

impl Registry {
    /// Rejects a socket if its object has reached the limit.
    pub(crate) fn has_room(&self, key: ObjectKey) -> Result<()> {
        let objects = self.0.borrow();
        let count = objects.get(&key).map_or(0, |object| object.all.len());
        if count < MAX_WEBSOCKETS_PER_OBJECT {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::Limit,
            format!(
                "an object may have at most {MAX_WEBSOCKETS_PER_OBJECT} WebSockets at a time: distribute them over several objects"
            ),
        ))
    }

    /// The object's auto-responses, shared with its sockets.
    pub(crate) fn auto_responses(&self, key: ObjectKey) -> Arc<AutoResponses> {
        let mut objects = self.0.borrow_mut();
        Arc::clone(&objects.entry(key).or_default().auto_responses)
    }

    /// The object's bytes at its output gate.
    pub(crate) fn held_bytes(&self, key: ObjectKey) -> Arc<HeldBytes> {
        let mut objects = self.0.borrow_mut();
        Arc::clone(&objects.entry(key).or_default().held_bytes)
    }

    pub(crate) fn add(&self, socket: &WebSocket) {
        let owner = socket.owner();
        let mut objects = self.0.borrow_mut();
        let object = objects.entry(owner.key).or_default();
        object.all.insert(owner.serial, socket.clone());
        for tag in &owner.tags {
            let tagged = object.tagged.entry(Arc::clone(tag)).or_default();
            tagged.insert(owner.serial, socket.clone());
        }
    }

    pub(crate) fn remove(&self, socket: &WebSocket) {
        let owner = socket.owner();
        let mut objects = self.0.borrow_mut();
        let Some(object) = objects.get_mut(&owner.key) else {
            return;
        };
        object.all.remove(&owner.serial);
        for tag in &owner.tags {
            if let Some(tagged) = object.tagged.get_mut(tag) {
                tagged.remove(&owner.serial);
                if tagged.is_empty() {
                    object.tagged.remove(tag);
                }
            }
        }
    }

    /// The object's sockets in order of acceptance.
    pub(crate) fn list(&self, key: ObjectKey, tag: Option<&str>) -> Vec<WebSocket> {
        let objects = self.0.borrow();
        let Some(object) = objects.get(&key) else {
            return Vec::new();
        };
        let found = match tag {
            None => Some(&object.all),
            Some(tag) => object.tagged.get(tag),
        };
        found.map_or_else(Vec::new, |sockets| sockets.values().cloned().collect())
    }

    /// Called when the object has left memory: without sockets, its other socket state is removed.
    pub(crate) fn object_left(&self, key: ObjectKey) {
        let mut objects = self.0.borrow_mut();
        if objects
            .get(&key)
            .is_some_and(|object| object.all.is_empty())
        {
            objects.remove(&key);
        }
    }
}
