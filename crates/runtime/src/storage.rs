//! An object's storage: SQL, key-value pairs, the alarm, transactions.
//!
//! Everything is synchronous. All writes between two awaits form one transaction, without any request for it. Nothing
//! that the object sends leaves before its writes are durable, without any explicit wait.

use std::{collections::BTreeMap, fmt, rc::Rc};

use abide_macros::Setters;

use abide_storage::{Bookmark, ClockTime, ListOptions, ObjectDb, cbor, limits::MAX_KEYS_PER_CALL};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error, ErrorKind, Result, ScheduledTime, Snapshot, Sql, Timestamp, blocking,
    object::{Confirmation, Object},
};

/// Options for writing a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct PutOptions {
    /// Messages of the object need not wait until this write is durable. If the machine fails, the write may be lost
    /// although a client has seen its effect.
    pub allow_unconfirmed: bool,
}

/// The storage of one object. Clones are cheap and share the same storage.
#[derive(Clone)]
pub struct Storage {
    object: Rc<Object>,
}

impl Storage {
    pub(crate) fn new(object: Rc<Object>) -> Self {
        Self { object }
    }

    pub(crate) fn object(&self) -> &Rc<Object> {
        &self.object
    }

    /// The object's SQLite database.
    pub fn sql(&self) -> Sql {
        Sql::new(Rc::clone(&self.object))
    }

    /// The value of a key.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        match self.object.read(|db| db.kv_get(key))? {
            Some(bytes) => Ok(Some(decode(key, &bytes)?)),
            None => Ok(None),
        }
    }

    /// The values of the given keys that exist. At most 128 keys per call, as for the other multi-key calls.
    pub fn get_many<T: DeserializeOwned, K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<BTreeMap<String, T>> {
        let mut found = BTreeMap::new();
        for (index, key) in keys.into_iter().enumerate() {
            check_count(index)?;
            let key = key.as_ref();
            if let Some(value) = self.get(key)? {
                found.insert(key.to_owned(), value);
            }
        }
        Ok(found)
    }

    /// Sets a key.
    pub fn put<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        self.put_with(key, value, PutOptions::default())
    }

    /// Sets a key, with options.
    pub fn put_with<T: Serialize + ?Sized>(
        &self,
        key: &str,
        value: &T,
        options: PutOptions,
    ) -> Result<()> {
        let bytes = cbor::to_vec(value)?;
        let confirmation = if options.allow_unconfirmed {
            Confirmation::Unconfirmed
        } else {
            Confirmation::Confirmed
        };
        self.object.write(confirmation, |db| db.kv_put(key, &bytes))
    }

    /// Sets several keys: all of them or, if one is rejected, none.
    pub fn put_many<T: Serialize, K: AsRef<str>>(
        &self,
        entries: impl IntoIterator<Item = (K, T)>,
    ) -> Result<()> {
        self.transaction(|| {
            for (index, (key, value)) in entries.into_iter().enumerate() {
                check_count(index)?;
                self.put(key.as_ref(), &value)?;
            }
            Ok(())
        })
    }

    /// Removes a key. Returns whether it existed.
    pub fn delete(&self, key: &str) -> Result<bool> {
        self.object
            .write(Confirmation::Confirmed, |db| db.kv_delete(key))
    }

    /// Removes several keys: all of them or, if one is rejected, none. Returns how many existed.
    pub fn delete_many<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        self.transaction(|| {
            let mut count = 0;
            for (index, key) in keys.into_iter().enumerate() {
                check_count(index)?;
                count += usize::from(self.delete(key.as_ref())?);
            }
            Ok(count)
        })
    }

    /// Keys and values in key order (of UTF-8 bytes), or in reverse.
    pub fn list<T: DeserializeOwned>(&self, options: &ListOptions) -> Result<Vec<(String, T)>> {
        let rows = self.object.read(|db| db.kv_list(options))?;
        rows.into_iter()
            .map(|(key, bytes)| decode(&key, &bytes).map(|value| (key, value)))
            .collect()
    }

    /// Removes everything: every key, every table, and the alarm. If nothing is written afterwards, the object ends when it
    /// leaves memory: it is as one that was never written, and the next checkpoint removes its file. It can still be
    /// restored.
    pub fn delete_all(&self) -> Result<()> {
        self.object.delete_all()
    }

    /// The time of the wall clock, and the sum of its steps back so far.
    ///
    /// A wait that is stored as a time gets longer if the clock is set back before it ends. Store the sum of the steps
    /// with it; if the sum is larger when the wait is read, subtract the difference. Steps of up to 5 s are not
    /// counted. If the clock was set back while the program was not running, the sum grows by at most the step.
    pub fn clock_time(&self) -> ClockTime {
        self.object.worker.clock_time()
    }

    /// Sets the object's unnamed alarm, replacing its current time; for named alarms see
    /// [`Ctx::alarm`](crate::Ctx::alarm). At this time, or soon after, the class's
    /// [`alarm`](crate::DurableObject::alarm) is called, at least once, whatever happens to the process. A time in the
    /// past calls it immediately. Like every write, it takes effect when the poll has committed.
    ///
    /// Takes a [`Duration`](std::time::Duration) from now, a [`SystemTime`](std::time::SystemTime), a [`Timestamp`],
    /// or an `i64` of milliseconds since 1970.
    ///
    /// In the alarm's own handler it sets the next alarm, which replaces the one being handled as soon as the handler
    /// ends, whether it succeeds or not.
    pub fn set_alarm(&self, at: impl Into<ScheduledTime>) -> Result<()> {
        self.object.set_alarm("", at.into(), None)
    }

    /// The time that the alarm is set to. In the alarm's own handler: that of the next alarm, if one was set in the
    /// meantime. If the alarm has activated the object, its constructor still sees the alarm, so "set one if none is
    /// set" works correctly there. An alarm that was given up is no longer set.
    pub fn alarm(&self) -> Result<Option<Timestamp>> {
        self.object.get_alarm("")
    }

    /// Removes the alarm, if there is one. In the alarm's own handler this cancels the next one; the alarm being
    /// handled is removed when the handler succeeds, and retried if it does not.
    pub fn delete_alarm(&self) -> Result<()> {
        self.object.delete_alarm("")
    }

    /// Runs a closure and rolls its writes back if it returns an error or panics. Can be nested.
    pub fn transaction<R, E: From<Error>>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.undoable(|db| db.transaction(|| f().map_err(Outer)))
    }

    /// Like [`transaction`](Self::transaction), for what is the same in every new object: its tables, and the
    /// rows that they begin with.
    ///
    /// In a new object it is stored with the first other change, so an object that is only read leaves nothing on disk.
    /// The same holds for tables, indexes, views and triggers that a constructor creates without this call. Any other row
    /// that a constructor writes stores the object at once. Do not write anything here that may differ the next time,
    /// such as the time or a random number.
    pub fn set_up<R, E: From<Error>>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.undoable(|db| db.set_up(|| f().map_err(Outer)))
    }

    fn undoable<R, E: From<Error>>(
        &self,
        run: impl FnOnce(&ObjectDb) -> Result<R, Outer<E>>,
    ) -> Result<R, E> {
        self.object
            .with_db(Confirmation::Confirmed, |db| {
                run(db).map_err(|Outer(error)| error)
            })
            .unwrap_or_else(|error| Err(error.into()))
    }

    /// Runs a closure whose writes may use the reserve beyond `storage.max_object_bytes` and `storage.max_bytes`: for
    /// writes that free space or must be able to finish. Alarms and background work always may, and so may updates and
    /// deletes.
    pub fn with_reserve<R>(&self, f: impl FnOnce() -> R) -> R {
        let _reserve = self.object.reserve();
        f()
    }

    /// The bookmark of the object's present state. If the current poll has written something, it is that of the commit
    /// that ends the poll, which also includes the poll's later writes. It is invalid if the poll is rolled back.
    pub fn bookmark(&self) -> Result<Bookmark> {
        self.object
            .with_db(Confirmation::Confirmed, ObjectDb::bookmark)
    }

    /// A snapshot of the object's present state: its id and the [`bookmark`](Self::bookmark), under the same rules. It can be
    /// stored and sent; [`Env::fork`](crate::Env::fork) makes another object from it.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.object.id, self.bookmark()?))
    }

    /// The bookmark of the object's last commit at or before a time. Reads the archive, on its own thread.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the object did not exist then or its history begins later; the message says when.
    /// [`ErrorKind::Damaged`] with the damaged file.
    pub async fn bookmark_at(&self, time: impl Into<Timestamp>) -> Result<Bookmark> {
        self.object.must_be_current()?;
        let store = self.object.worker.store.clone();
        let (key, time) = (self.object.key(), time.into().of_a_commit());
        blocking::on_a_thread(move || store.bookmark_at(key, time)).await
    }

    /// Requests that the object be restored to a bookmark when it next starts; [`Ctx::abort`](crate::Ctx::abort)
    /// restarts it now. Returns the bookmark that undoes it: the state at the end of the current poll or, if the poll
    /// is aborted, before it.
    ///
    /// The request is durable like every write, and survives an abort in the same poll. A later request replaces it. If
    /// the bookmark turns out to be older than the archived history, the object starts with its present state, and the
    /// program's log says so.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the bookmark is of another object, or later than the present.
    pub fn restore_at_next_start(&self, bookmark: &Bookmark) -> Result<Bookmark> {
        self.object.request_restore(bookmark)
    }

    /// Waits until everything written so far, including `allow_unconfirmed` writes, is durable. Rarely needed: messages
    /// of the object wait on their own. It does not store an object that has only been [set up](Self::set_up).
    pub async fn sync(&self) -> Result<()> {
        self.object.synced().await
    }
}

/// An error of a closure, or of the transaction that it runs in.
struct Outer<E>(E);

impl<E: From<Error>> From<abide_storage::Error> for Outer<E> {
    fn from(error: abide_storage::Error) -> Self {
        Self(Error::from(error).into())
    }
}

fn check_count(index: usize) -> Result<()> {
    if index < MAX_KEYS_PER_CALL {
        return Ok(());
    }
    Err(Error::with_kind(
        ErrorKind::Limit,
        format!(
            "a call may have at most {MAX_KEYS_PER_CALL} keys: make several calls, which still form one transaction"
        ),
    ))
}

fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    cbor::from_slice(bytes).map_err(|error| {
        let error = Error::from(error);
        Error::with_kind(error.kind(), format!("the value of key `{key}`: {error}"))
    })
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("object", &self.object.id)
            .finish_non_exhaustive()
    }
}
