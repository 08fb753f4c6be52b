//! The tail: parts of the log that are not in runs yet, in pieces under numbers of one sequence.
//!
//! A session begins with a piece that says no more than that, and its parts follow. Pieces are only created, one after the other:
//! each under the number after the newest. So a session that has begun knows that no earlier one will ever have another piece: its
//! next number is taken. The pieces with which sessions begin are kept, so it stays taken; and the newest piece is never deleted.
//!
//! A copy is restored from a manifest and the pieces of *one* session that continue it without a gap. A session's parts count only
//! once this session has a manifest in force; until then a restore finds the manifest and the tail of the session before.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    Error, Machine, Manifest, Session, Store, Writer,
    directory::{Mark, Notes, Record},
    key,
    piece::Piece,
    sequence,
    sequence::Kind,
    source::Part,
    store::Creation,
};

/// How long pieces are kept that the newest manifest does not need, for restores that read them.
const KEEP: Duration = Duration::from_mins(10);

/// At least this many are deleted after one manifest, and as many as have been created since the last.
const DELETED_AT_ONCE: usize = 200;

/// With more parts than this that are in no runs yet, they are shipped at intervals and not as soon as they are there.
const CROWDED: usize = 10_000;

/// The pause after a listing that named what could not be read.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A session's part of the tail.
#[derive(Debug)]
pub(crate) struct Tail {
    store: Store,
    session: Session,
    writer: Writer,
    may_take_over: bool,
    state: Mutex<State>,
    /// Held while a piece is created.
    creating: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The number after the newest piece.
    next: u64,
    has_begun: bool,
    /// What the store may have under the next number: it was sent, and not confirmed. It is sent again as it was.
    sent: Option<Piece>,
    /// The end of its newest part.
    end: Option<u64>,
    /// Its parts that are not in the runs of its manifest.
    parts: VecDeque<Place>,
    /// The position up to which the newest manifest, and what continues it, have the log; `None` if none is this directory's.
    reach: Option<u64>,
    /// A manifest of this session is in force, and no doubt has come up since.
    is_counted: bool,
    /// The newest manifest that it knows.
    manifest: u64,
    /// The end of the log when the session began: an earlier one may have reported that the store has it.
    told: u64,
    /// The numbers of the parts that are there, of all sessions.
    present: BTreeSet<u64>,
    /// How many of them have been created since the last deletion.
    created: usize,
    /// Since when manifests are in force, and the first number that each needs.
    needed: VecDeque<(Instant, u64)>,
}

/// Where a part is.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    first: u64,
    end: u64,
}

impl State {
    /// The store has a piece of this session.
    fn created(&mut self, piece: &Piece) {
        self.sent = None;
        self.next = piece.number + 1;
        if let Some(part) = &piece.part {
            self.end = Some(part.end);
            self.parts.push_back(Place {
                number: piece.number,
                first: part.first,
                end: part.end,
            });
            self.extend_reach();
        }
        self.has_begun = true;
        self.note(piece);
    }

    /// Notes that a piece is there. One that begins a session is never deleted.
    fn note(&mut self, piece: &Piece) {
        if piece.part.is_some() {
            self.present.insert(piece.number);
            self.created += 1;
        }
    }

    /// Leaves out a number that another session has taken.
    fn pass(&mut self, piece: &Piece) {
        self.sent = None;
        self.next = piece.number + 1;
        self.note(piece);
    }

    /// Counts the parts that continue what is there.
    fn extend_reach(&mut self) {
        if let Some(reach) = self.reach.filter(|_| self.is_counted) {
            self.reach = Some(self.end_after(reach));
        }
    }

    /// How far the parts continue the log up to a position without a gap.
    fn end_after(&self, mut end: u64) -> u64 {
        for part in &self.parts {
            if part.first > end {
                break;
            }
            end = part.end.max(end);
        }
        end
    }
}

impl Tail {
    /// Looks whose the tail is. `last` is the manifest in force, `takes_over` whether it is another's, and `end` that of the log.
    ///
    /// # Errors
    /// [`Error::Owned`] if another directory has begun after what this one knows of, or the store has more of the log than this
    /// directory, unless the history is to be taken over.
    pub(crate) async fn open(
        store: &Store,
        notes: &Notes,
        session: Session,
        last: Option<&Manifest>,
        takes_over: bool,
        may_take_over: bool,
        end: u64,
    ) -> Result<Self, Error> {
        let record = notes.record().await;
        let there = sequence::all(store).await?;
        let newest = there.last_key_value().map(|(number, _)| *number);
        let mut state = State {
            next: newest.unwrap_or(0) + 1,
            told: end,
            manifest: last.map_or(0, |last| last.number),
            ..State::default()
        };
        // It may be deleted by an owner that still runs.
        let piece = match newest {
            Some(newest) => sequence::piece(store, newest).await?,
            None => None,
        };
        if let Some(piece) = piece.filter(|_| !may_take_over) {
            if !record.begun.contains(&piece.session) {
                return Err(Error::Owned(begun_by(store, &piece)));
            }
            if piece.part.is_some_and(|part| part.end > end) {
                return Err(Error::Owned(set_back(store)));
            }
        }
        if let Some(last) = last.filter(|last| !takes_over && !last.is_foreign) {
            if last.end > end && !may_take_over {
                return Err(Error::Owned(set_back(store)));
            }
            state.reach = last.content.as_ref().map(|_| last.end);
        }
        let parts = there.into_iter().filter(|(_, kind)| *kind == Kind::HasPart);
        state.present = parts.map(|(number, _)| number).collect();
        Ok(Self {
            store: store.clone(),
            session,
            writer: record.writer,
            may_take_over,
            state: Mutex::new(state),
            creating: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        self.store.machine()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the session, if it has not.
    pub(crate) async fn begin(&self, notes: &Notes) -> Result<(), Error> {
        let _one = self.creating.lock().await;
        if self.state().has_begun {
            return Ok(());
        }
        let session = self.session;
        let before = notes.record().await.begun;
        if !before.contains(&session) {
            let push = move |record: &mut Record| record.begun.push(session);
            notes.change(push).await?;
        }
        while let Some(there) = self.create(None).await? {
            // The last piece of an earlier session of this directory may come late.
            let is_own = before.contains(&there.session);
            if !is_own && !self.may_take_over {
                return Err(Error::Owned(continued_by(&self.store, &there)));
            }
            self.state().pass(&there);
        }
        notes
            .change(move |record| record.begun = vec![session])
            .await
    }

    /// Adds a part, or the one before if it is not known to be there: [`Self::end`] tells.
    pub(crate) async fn append(&self, part: Part) -> Result<(), Error> {
        let _one = self.creating.lock().await;
        match self.create(Some(part)).await? {
            None => Ok(()),
            Some(there) => Err(Error::Owned(continued_by(&self.store, &there))),
        }
    }

    /// Creates the next piece. Returns the one that is there, if it is another.
    async fn create(&self, part: Option<Part>) -> Result<Option<Piece>, Error> {
        let piece = {
            let mut state = self.state();
            let next = Piece {
                number: state.next,
                writer: self.writer,
                session: self.session,
                manifest: state.manifest,
                part,
            };
            state.sent.get_or_insert(next).clone()
        };
        let key = key::piece(piece.number);
        let bytes: Bytes = piece.encode();
        if self.store.create(&key, bytes.clone()).await? != Creation::Made {
            let there = self.store.read(&key).await?;
            let there = there.ok_or_else(|| {
                let action = format!("creating {key}");
                Error::store(action, "the store refuses it and does not have it")
            })?;
            // Its own, if a response was lost.
            if there != bytes {
                return Piece::decode(piece.number, &there).map(Some);
            }
        }
        self.state().created(&piece);
        Ok(None)
    }

    /// Notices that another has begun.
    pub(crate) async fn must_be_newest(&self) -> Result<(), Error> {
        let _one = self.creating.lock().await;
        loop {
            let (next, sent) = {
                let state = self.state();
                (state.next, state.sent.clone())
            };
            let newer = sequence::from(&self.store, next).await?;
            let Some((newer, _)) = newer.first_key_value() else {
                return Ok(());
            };
            let Some(piece) = sequence::piece(&self.store, *newer).await? else {
                self.machine().sleep(LOOK_AGAIN).await;
                continue;
            };
            if Some(&piece) != sent.as_ref() {
                return Err(Error::Owned(continued_by(&self.store, &piece)));
            }
            // What was sent has arrived, and something may have come after it.
            self.state().created(&piece);
        }
    }

    /// What continues a manifest whose runs have the log up to a position.
    pub(crate) fn mark(&self, end: u64) -> Mark {
        let state = self.state();
        let later = state.parts.iter().find(|part| part.end > end);
        Mark {
            number: later.map_or(state.next, |part| part.number),
            session: self.session,
        }
    }

    /// True if a copy whose runs have the log up to a position, and the parts that continue it, have all that an earlier session may
    /// have reported.
    pub(crate) fn may_count(&self, end: u64) -> bool {
        let state = self.state();
        state.is_counted || state.end_after(end) >= state.told
    }

    /// What the store has is in doubt: nothing more counts until a manifest of this session is in force again.
    pub(crate) fn doubt(&self) {
        self.state().is_counted = false;
    }

    /// True if there are too many parts that are in no runs yet.
    pub(crate) fn is_crowded(&self) -> bool {
        self.state().parts.len() > CROWDED
    }

    /// A manifest of this session is in force.
    pub(crate) fn published(&self, manifest: &Manifest) {
        let mut state = self.state();
        state.manifest = manifest.number;
        let Some(mark) = manifest.tail.filter(|tail| tail.session == self.session) else {
            return;
        };
        state.is_counted = true;
        let end = manifest.end;
        state.parts.retain(|part| part.end > end);
        state.reach = Some(end.max(state.reach.unwrap_or(0)));
        state.extend_reach();
        state.needed.push_back((self.machine().now(), mark.number));
    }

    /// True if the session's parts do not count yet: a manifest is to be published.
    pub(crate) fn wants_manifest(&self) -> bool {
        let state = self.state();
        state.has_begun && !state.is_counted
    }

    /// The position up to which the log can be restored from the store, if any is this directory's.
    pub(crate) fn reach(&self) -> Option<u64> {
        self.state().reach
    }

    /// True if the store has the log up to a position, or will have once the session's parts count.
    pub(crate) fn has(&self, position: u64) -> bool {
        let state = self.state();
        let newest = state.end.max(state.reach);
        newest.is_some_and(|newest| newest >= position)
    }

    /// Where its next part begins; `None` for its first.
    pub(crate) fn end(&self) -> Option<u64> {
        self.state().end
    }

    /// Deletes some of the pieces that no restore reads any more.
    pub(crate) async fn collect(&self) -> Result<(), Error> {
        let numbers: Vec<u64> = {
            let mut state = self.state();
            let now = self.machine().now();
            let is_old = |since: &Instant| now.duration_since(*since) >= KEEP;
            while state.needed.get(1).is_some_and(|(since, _)| is_old(since)) {
                state.needed.pop_front();
            }
            let oldest = state.needed.front().filter(|(since, _)| is_old(since));
            let Some(&(_, needed)) = oldest else {
                return Ok(());
            };
            let most = DELETED_AT_ONCE + 2 * std::mem::take(&mut state.created);
            // The newest tells the next session its number.
            let unneeded = state.present.range(..needed.min(state.next - 1));
            unneeded.copied().take(most).collect()
        };
        let keys: Vec<_> = numbers.iter().map(|number| key::piece(*number)).collect();
        self.store.delete(&keys).await?;
        let mut state = self.state();
        for number in numbers {
            state.present.remove(&number);
        }
        Ok(())
    }
}

fn begun_by(store: &Store, piece: &Piece) -> String {
    format!(
        "the history at {} is not this directory's: the data directory {} has begun to write there since, or a restore was made to \
         continue there. If that node runs, or will, give this one its own place. Only if it is gone for good, start this one with \
         --take-over",
        store.location(),
        piece.writer
    )
}

fn continued_by(store: &Store, piece: &Piece) -> String {
    format!(
        "the history at {} was taken over: the data directory {} has begun to write there, or a restore was made to continue there. \
         This node uploads nothing any more. Stop one of the two nodes",
        store.location(),
        piece.writer
    )
}

fn set_back(store: &Store) -> String {
    format!(
        "the store of the history at {} has more of the log than this data directory: it was set back, or it is a copy of another. \
         Restore the newest copy into an empty directory (`abide restore --from`), or continue without what only the store has: \
         start with --take-over",
        store.location()
    )
}
