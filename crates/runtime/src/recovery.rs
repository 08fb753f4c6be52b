//! Point-in-time recovery of objects on a running node, for operators.

use std::time::SystemTime;

use abide_storage::{
    Bookmark, ObjectKey, PastDatabase, QuarantinedObject, Repair, Repaired, Store,
};
use tokio::sync::oneshot;

use crate::{
    Activation, AnyStub, Error, Node, ObjectId, Result, Timestamp,
    blocking::on_a_thread,
    envelope::{AdminTask, Message, Tell},
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

impl Moment {
    fn find(self, store: &Store, key: ObjectKey) -> abide_storage::Result<Bookmark> {
        match self {
            Self::Bookmark(bookmark) => Ok(bookmark),
            Self::Time(time) => store.bookmark_at(key, time.of_a_commit()),
        }
    }
}

impl Node {
    /// The bookmark of an object at a moment; `None` means now. Needs tokio.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the object did not exist then or its history begins later; the
    /// message says when. [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) with the damaged file.
    pub async fn bookmark(&self, object: &AnyStub, at: Option<Moment>) -> Result<Bookmark> {
        object.checked_id()?;
        let (store, key) = (self.store().clone(), object.key());
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
    /// As [`Node::bookmark`]; [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace).
    pub async fn database(
        &self,
        object: &AnyStub,
        at: Option<Moment>,
    ) -> Result<(Bookmark, PastDatabase)> {
        object.checked_id()?;
        let (store, key) = (self.store().clone(), object.key());
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
    /// As [`Node::bookmark`]; [`ErrorKind::Limit`](crate::ErrorKind::Limit) if the difference exceeds what one
    /// transaction may change. The object then keeps its state, but has been reset.
    pub async fn restore(&self, object: &AnyStub, to: impl Into<Moment>) -> Result<Bookmark> {
        object.checked_id()?;
        let (to, key) = (to.into(), object.key());
        self.run_admin_task(object, true, move |store| {
            let to = to.find(store, key)?;
            store.restore(key, &to)
        })
        .await
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
        object.checked_id()?;
        let (to, key) = (to.into(), object.key());
        self.run_admin_task(object, true, move |store| {
            let to = to.find(store, key)?;
            store.restore_dormant(key, &to)
        })
        .await
    }

    /// Ends the dormancy of a fork, or of an object that was restored so. It does its own work from then on, and what it
    /// has inherited is dropped or continued: messages of its outbox, timers, alarms, running steps. Durable when it
    /// returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the object is not dormant; otherwise as a call of the object.
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
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the object is not quarantined;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if it has no valid database to accept. The object then stays quarantined, and nothing is lost.
    pub async fn repair(&self, object: &AnyStub, how: Repair) -> Result<Repaired> {
        object.checked_id()?;
        let key = object.key();
        self.run_admin_task(object, true, move |store| store.repair(key, how))
            .await
    }

    /// Creates the object named `name`, of the same class, with the content that `object` had at a moment. It is
    /// [dormant](crate::Ctx::is_dormant) until it is [activated](Self::activate). Returns its id. Durable when it returns; `object` is not affected.
    ///
    /// # Errors
    /// As [`Node::bookmark`]; [`ErrorKind::Input`](crate::ErrorKind::Input) if an object with that name exists.
    pub async fn fork(
        &self,
        object: &AnyStub,
        at: impl Into<Moment>,
        name: &str,
    ) -> Result<ObjectId> {
        object.checked_id()?;
        let to = object.sibling(name);
        to.checked_id()?;
        let (at, from, key, name) = (at.into(), object.key(), to.key(), name.to_owned());
        self.run_admin_task(&to, false, move |store| {
            let at = at.find(store, from)?;
            store.fork(from, &at, key, Some(&name))
        })
        .await?;
        Ok(to.id())
    }

    /// Holds an object on its worker while work on its database runs.
    async fn run_admin_task<R: Send + 'static>(
        &self,
        object: &AnyStub,
        reset: bool,
        work: impl FnOnce(&Store) -> abide_storage::Result<R> + Send + 'static,
    ) -> Result<R> {
        self.must_run()?;
        let (done, result) = oneshot::channel();
        let (refused, refusal) = oneshot::channel();
        let work = Box::new(move |store: &Store| {
            let result = work(store);
            let tell: Tell = Box::new(move || {
                // The caller may be gone.
                let _ = done.send(result);
            });
            tell
        });
        object.worker().send(Message::AdminTask(AdminTask {
            binding: object.binding_index(),
            id: object.id(),
            reset,
            work,
            refused,
        }))?;
        match result.await {
            Ok(result) => Ok(result?),
            // The work was dropped: rejected, or the node is stopping.
            Err(_) => Err(refusal.await.unwrap_or_else(|_| Error::stopping())),
        }
    }
}
