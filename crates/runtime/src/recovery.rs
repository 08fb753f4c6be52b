//! Point-in-time recovery of objects on a running node, for operators.

use std::time::SystemTime;

use abide_storage::{
    Bookmark, ObjectKey, PastDatabase, QuarantinedObject, Repair, Repaired, Store,
};

use crate::{
    Activation, AnyStub, Error, ErrorKind, Node, ObjectId, Result, Snapshot, Timestamp,
    blocking::on_a_thread, envelope::Purpose,
};

/// A quarantined object, as [`Node::quarantined`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantineListing {
    /// The unique key of its class's namespace.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// Why it is unavailable.
    pub why: String,
}

/// A point in an object's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The commit of a bookmark.
    Bookmark(Bookmark),
    /// The last commit at or before a time.
    Time(Timestamp),
    /// The commit of a snapshot, which must be of the object in question.
    Snapshot(Snapshot),
}

impl From<Bookmark> for Moment {
    fn from(bookmark: Bookmark) -> Self {
        Self::Bookmark(bookmark)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self::Time(time)
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        Self::Time(time.into())
    }
}

impl From<Snapshot> for Moment {
    fn from(snapshot: Snapshot) -> Self {
        Self::Snapshot(snapshot)
    }
}

impl Moment {
    /// The key of the object, if this can be a moment of it.
    pub(crate) fn checked_key(self, object: &AnyStub) -> Result<ObjectKey> {
        let id = object.checked_id()?;
        match self {
            Self::Snapshot(snapshot) if snapshot.object() != id => Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "the snapshot is of the object {}, not of {id}",
                    snapshot.object()
                ),
            )),
            _ => Ok(object.key()),
        }
    }

    /// Its bookmark.
    pub(crate) fn find(self, store: &Store, key: ObjectKey) -> abide_storage::Result<Bookmark> {
        match self {
            Self::Bookmark(bookmark) => Ok(bookmark),
            Self::Snapshot(snapshot) => Ok(snapshot.bookmark()),
            Self::Time(time) => store.bookmark_at(key, time.of_a_commit()),
        }
    }
}

impl Node {
    /// The bookmark of an object at a moment; `None` means now. Needs tokio.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the object did not exist then or its history begins later; the
    /// message says when. [`ErrorKind::Damaged`] with the damaged file.
    pub async fn bookmark(&self, object: &AnyStub, at: Option<Moment>) -> Result<Bookmark> {
        let key = key_of(object, at)?;
        let store = self.store().clone();
        on_a_thread(move || match at {
            None => store.bookmark(key),
            Some(moment) => moment.find(&store, key),
        })
        .await
    }

    /// The database of an object at a moment, with its bookmark; `None` means now. It changes nothing, and the object is not
    /// disturbed. Needs tokio, and disk space for the database.
    ///
    /// # Errors
    /// As [`Node::bookmark`]; [`ErrorKind::NoSpace`].
    pub async fn database(
        &self,
        object: &AnyStub,
        at: Option<Moment>,
    ) -> Result<(Bookmark, PastDatabase)> {
        let key = key_of(object, at)?;
        let store = self.store().clone();
        on_a_thread(move || {
            let bookmark = match at {
                None => store.bookmark(key)?,
                Some(moment) => moment.find(&store, key)?,
            };
            Ok((bookmark, store.database_at(key, &bookmark)?))
        })
        .await
    }

    /// Restores an object to a moment and returns the bookmark that undoes it. Durable when it returns.
    ///
    /// The object is reset: running handlers are aborted, and their callers get an error ([`Error::object_reset`]).
    /// Events that wait, or arrive in the meantime, wait until the restore is complete, and find the restored state.
    /// The object's alarm is restored, too.
    ///
    /// # Errors
    /// As [`Node::bookmark`]; [`ErrorKind::Limit`] if the difference exceeds what one
    /// transaction may change. The object then keeps its state, but has been reset.
    pub async fn restore(&self, object: &AnyStub, to: impl Into<Moment>) -> Result<Bookmark> {
        let to = to.into();
        let key = to.checked_key(object)?;
        let work = move |store: &Store| store.restore(key, &to.find(store, key)?);
        object.held_for(Purpose::Restore, work).await
    }

    /// As [`Node::restore`]; the object is then dormant until it is [activated](Self::activate), so that its restored
    /// state can be examined before it acts.
    ///
    /// # Errors
    /// As [`Node::restore`].
    pub async fn restore_dormant(
        &self,
        object: &AnyStub,
        to: impl Into<Moment>,
    ) -> Result<Bookmark> {
        let to = to.into();
        let key = to.checked_key(object)?;
        let work = move |store: &Store| store.restore_dormant(key, &to.find(store, key)?);
        object.held_for(Purpose::Restore, work).await
    }

    /// Ends the dormancy of a fork, or of an object that was restored so. It does its own work from then on, and what it
    /// has inherited is dropped or continued: messages of its outbox, timers, alarms, running steps. Durable when it
    /// returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the object is not dormant; otherwise as a call of the object.
    pub async fn activate(&self, object: &AnyStub, how: Activation) -> Result<()> {
        object.activate(how).await
    }

    /// The quarantined objects, with the unique key of their class: they are unavailable until they are repaired.
    pub fn quarantined(&self) -> Vec<QuarantineListing> {
        let namespaces = self.store().namespaces();
        let listing = |of: QuarantinedObject| {
            let known = namespaces.iter().find(|(no, _)| *no == of.key.namespace);
            QuarantineListing {
                class: known.map_or_else(String::new, |(_, class)| class.clone()),
                id: ObjectId::from_bytes(of.key.id),
                why: of.why,
            }
        };
        self.store()
            .quarantined()
            .into_iter()
            .map(listing)
            .collect()
    }

    /// Ends the quarantine of an object. The old file is kept in the same directory. Durable when it returns.
    /// [`Node::restore`] also ends a quarantine, using the object's history.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the object is not quarantined;
    /// [`ErrorKind::Unavailable`] if it has no valid database to accept. The object then stays quarantined, and nothing is lost.
    pub async fn repair(&self, object: &AnyStub, how: Repair) -> Result<Repaired> {
        object.checked_id()?;
        let key = object.key();
        let work = move |store: &Store| store.repair(key, how);
        object.held_for(Purpose::Restore, work).await
    }
}

fn key_of(object: &AnyStub, at: Option<Moment>) -> Result<ObjectKey> {
    match at {
        Some(moment) => moment.checked_key(object),
        None => object.checked_id().map(|_| object.key()),
    }
}
