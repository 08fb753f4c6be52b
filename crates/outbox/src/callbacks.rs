//! Callbacks: how an object learns that a message has ended.
//!
//! Contract: a callback is called in the transaction that ends its message, so both are stored or neither is. If it
//! fails or panics, what it wrote is rolled back and the message ends all the same; the call is then owed, as a row of
//! `outbox_callbacks`, and repeated after the waits of [`RetryPolicy::default`], in a transaction that also removes the
//! row. When its tries have run out, the row stays until an operator repeats it. The row has all that the callback
//! receives, so it is independent of the message's fate. A message owes at most one call: another end replaces
//! it, and so does a redrive.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::{Rc, Weak},
};

use abide::{Error, ErrorKind, Result};
use abide_component::{
    jittered,
    numbers::{millis, rows},
    texts::{Panicked, cut},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Outbox, OutboxError, Record, RetryPolicy, inner::Inner, limits, metrics::Event, notes::Note,
    rows::Rows,
};

/// A message that has ended, as its callback sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// The message, in the state in which it ended.
    pub record: Record,
    /// Its payload: a JSON text.
    pub payload: String,
}

impl Ended {
    /// The payload as a value of its type.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`] if it has another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.payload).map_err(|error| {
            let text = format!(
                "the payload of message {} cannot be read: {error}",
                self.record.id
            );
            Error::with_kind(ErrorKind::Decode, text)
        })
    }
}

/// A callback that is to be called again, because it has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OwedCallback {
    /// The message that has ended.
    pub message: i64,
    /// Its kind.
    pub kind: String,
    /// True if it was sent, false if it failed or was canceled.
    pub sent: bool,
    /// How many times the callback has failed.
    pub tries: u32,
    /// When it is called again, in milliseconds since 1970. `None` if its tries have run out.
    pub next_at: Option<i64>,
    /// Its last error.
    pub error: String,
}

/// How a message has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Sent,
    /// It is a dead letter, or was canceled.
    Failed,
}

type Callback = Rc<dyn Fn(&Outbox, &Ended) -> Result<()>>;

/// The callbacks of an outbox.
#[derive(Default)]
pub(super) struct Callbacks {
    by_kind: RefCell<BTreeMap<(String, bool), Callback>>,
    outbox: RefCell<Weak<Inner>>,
}

impl Callbacks {
    /// The outbox that callbacks receive. Not a strong reference, which would be a cycle.
    pub(super) fn belong_to(&self, outbox: &Rc<Inner>) {
        *self.outbox.borrow_mut() = Rc::downgrade(outbox);
    }

    fn of(&self, kind: &str, end: End) -> Option<Callback> {
        let key = (kind.to_owned(), end == End::Sent);
        self.by_kind.borrow().get(&key).cloned()
    }

    /// Drops them.
    pub(super) fn forget(&self) {
        drop(self.by_kind.take());
    }

    fn are_none(&self) -> bool {
        self.by_kind.borrow().is_empty()
    }

    fn are_of(&self, kind: &str) -> bool {
        self.by_kind.borrow().keys().any(|(known, _)| known == kind)
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_kind.borrow().keys()).finish()
    }
}

impl Outbox {
    /// Calls a function when a message of this kind was sent; register it in the constructor, after
    /// [`open`](Self::open).
    ///
    /// It is called at least once for each such message, in the transaction that marks the message as sent, so what it
    /// writes to the object's storage is stored with that, once. It may enqueue messages, but not wait. If it fails or
    /// panics, only what it wrote is rolled back, and it is called again later: see [`callbacks`](Self::callbacks).
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the kind has no handler, or already has such a callback.
    pub fn on_sent(
        &self,
        kind: &str,
        callback: impl Fn(&Self, &Ended) -> Result<()> + 'static,
    ) -> Result<()> {
        self.on_end(kind, End::Sent, Rc::new(callback))
    }

    /// The same when a message of this kind will not be sent: it has become a dead letter
    /// ([`Status::Failed`](super::Status::Failed)) or was canceled. A dead letter that is redriven ends again; it is
    /// not an end that a dead letter is discarded.
    ///
    /// # Errors
    /// As of [`on_sent`](Self::on_sent).
    pub fn on_failed(
        &self,
        kind: &str,
        callback: impl Fn(&Self, &Ended) -> Result<()> + 'static,
    ) -> Result<()> {
        self.on_end(kind, End::Failed, Rc::new(callback))
    }

    fn on_end(&self, kind: &str, end: End, callback: Callback) -> Result<()> {
        self.0.registry.handler(kind)?;
        let key = (kind.to_owned(), end == End::Sent);
        let before = self
            .0
            .rows
            .callbacks
            .by_kind
            .borrow_mut()
            .insert(key, callback);
        match before {
            None => Ok(()),
            Some(_) => Err(Error::with_kind(
                ErrorKind::Input,
                format!("kind `{kind}` already has a callback of this sort: register one"),
            )),
        }
    }

    /// Callbacks that have failed and are to be called again, those whose tries have run out first.
    pub fn callbacks(&self, limit: usize) -> Result<Vec<OwedCallback>> {
        self.0
            .rows
            .sql
            .exec(
                "SELECT message, kind, sent, tries, next_at, error FROM outbox_callbacks ORDER BY next_at, message LIMIT ?1",
                (rows(limit.min(limits::MAX_PAGE)),),
            )?
            .all()
    }

    /// Calls all failed callbacks again soon, with a fresh count of tries. Returns how many there are.
    pub fn repeat_callbacks(&self) -> Result<usize> {
        let now = self.0.now();
        self.0.rows.storage.transaction(|| {
            let sql = &self.0.rows.sql;
            let update = "UPDATE outbox_callbacks SET next_at = ?1, tries = 0";
            sql.exec(update, (now,))?;
            self.0.rows.agenda_changes();
            self.carry_on(now, now)?;
            let count = "SELECT count(*) FROM outbox_callbacks";
            sql.exec(count, ())?.one()
        })
    }
}

impl Rows {
    /// Calls the callback of a message that has just ended, if there is one.
    pub(super) fn tell_end(&self, id: i64, kind: &str, end: End, now: i64) -> Result<()> {
        if self.callbacks.are_none() || !self.callbacks.are_of(kind) {
            return Ok(());
        }
        self.owes_nothing(id)?;
        let Some(callback) = self.callbacks.of(kind, end) else {
            return Ok(());
        };
        let ended = Ended {
            record: self
                .must_have(id)
                .map_err(|error: OutboxError| Error::from(error))?,
            payload: self.payload(id)?.unwrap_or_default(),
        };
        match self.transaction(|| self.call(&callback, &ended)) {
            Ok(()) => Ok(()),
            Err(error) => self.owe(&ended, end, 1, &error, now),
        }
    }

    /// A message no longer owes its callback.
    pub(super) fn owes_nothing(&self, id: i64) -> Result<()> {
        let delete = "DELETE FROM outbox_callbacks WHERE message = ?1";
        self.sql.exec(delete, (id,)).map(drop)
    }

    /// Calls the callbacks that are due again. True if there may be more.
    pub(super) fn repeat_owed(&self, now: i64) -> Result<bool> {
        type Owed = (bool, u32, String);
        let due: Vec<Owed> = self
            .sql
            .exec(
                "SELECT sent, tries, ended FROM outbox_callbacks WHERE next_at <= ?1 ORDER BY next_at LIMIT ?2",
                (now, rows(limits::MAX_SWEPT)),
            )?
            .all()?;
        for (sent, tries, ended) in &due {
            let end = if *sent { End::Sent } else { End::Failed };
            let ended: Ended = serde_json::from_str(ended).map_err(Error::from_std)?;
            let record = &ended.record;
            let called = self.transaction(|| {
                let callback = self.callbacks.of(&record.kind, end).ok_or_else(|| {
                    Error::new(format!(
                        "kind `{}` no longer has this callback",
                        record.kind
                    ))
                })?;
                self.call(&callback, &ended)?;
                self.owes_nothing(record.id)
            });
            if let Err(error) = called {
                self.owe(&ended, end, tries.saturating_add(1), &error, now)?;
            }
        }
        Ok(due.len() == limits::MAX_SWEPT)
    }

    fn call(&self, callback: &Callback, ended: &Ended) -> Result<()> {
        let Some(outbox) = self.callbacks.outbox.borrow().upgrade() else {
            return Err(Error::new("the outbox is gone"));
        };
        let outbox = Outbox(outbox);
        let called = catch_unwind(AssertUnwindSafe(|| callback(&outbox, ended)));
        called.unwrap_or_else(|panic| {
            let Panicked { text, shown } = Panicked::new("the callback", &*panic);
            tracing::error!(%text, error = shown, "a callback of the outbox panicked; it is called again");
            Err(Error::new(shown))
        })
    }

    /// Has a callback called again that has failed this many times.
    fn owe(&self, ended: &Ended, end: End, tries: u32, error: &Error, now: i64) -> Result<()> {
        let record = &ended.record;
        let next_at = RetryPolicy::default().wait(tries).map(|(wait, most)| {
            let parts = [record.idempotency_key.as_bytes(), &tries.to_le_bytes()];
            now.saturating_add(jittered(millis(wait), most, &parts))
        });
        let error = cut(error.message().to_owned(), limits::MAX_ERROR_BYTES);
        self.agenda_changes();
        self.sql.exec(
            "INSERT OR REPLACE INTO outbox_callbacks (message, kind, sent, ended, tries, next_at, error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                record.id,
                &record.kind,
                end == End::Sent,
                serde_json::to_string(ended).map_err(Error::from_std)?,
                tries,
                next_at,
                &error,
            ),
        )?;
        let event = match next_at {
            Some(_) => Event::CallbackFailed,
            None => Event::CallbackGivenUp,
        };
        let note = Note::warning(event, &record.destination, Some(record.id), &error);
        self.notes.add(note);
        Ok(())
    }
}
