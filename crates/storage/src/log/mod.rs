//! The commit log: one for all objects of a node.
//!
//! A commit is appended to a buffer under a lock, which gives it its position, and returns at once. The writer (a
//! thread, or a test that calls [`Log::write_group`]) takes whatever has gathered, hands it to the durability provider
//! as one group, moves the durable LSN and tells the listeners. No delay is added: under load groups grow by
//! themselves while the disk is busy.
//!
//! - An error of the provider poisons the log for good: the durable LSN never moves again, every later append is
//!   refused and the listeners are told once.
//! - Who was refused for want of room first gets it first.
//! - Room is counted before a record is accepted, so the disk never runs full in the middle of one.
//! - A delta may be appended only if the full image it builds on is behind the checkpoint's floor; that is checked
//!   here again, under the lock, because a checkpoint can begin between encoding and appending.

pub(crate) mod local;
pub(crate) mod provider;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod segment_pool;

use crate::broken::{Variant, broken};
use crate::error::{Error, Result};
use crate::ident::{Epoch, Lsn};
use crate::limits::MAX_UNSYNCED_BYTES;
use crate::sync::{Condvar, Mutex};
use provider::{Durability, Group, NotDurable};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, RwLock};
use std::time::Instant;

/// What a listener is told, from the thread that writes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything up to this position is durable.
    Durable(Lsn),
    /// The log has failed: nothing that is not durable now will be.
    Failed,
}

type Listener = Box<dyn Fn(Progress) + Send + Sync>;

/// A transaction, encoded and ready to be appended: its records one behind the other, each begun by a header that
/// lacks only its position.
#[derive(Default)]
pub(crate) struct Transaction {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lengths: Vec<usize>,
    /// The floor that its deltas were encoded against.
    pub(crate) floor: Lsn,
    /// Its place in the queue, once it was refused for want of room and nobody was before it.
    turn: Option<u64>,
}

impl Transaction {
    /// Writes the time of the commit anew.
    pub(crate) fn set_time(&mut self, unix_millis: u64) {
        let mut at = 0;
        for length in &self.lengths {
            record::set_time(&mut self.bytes[at..], unix_millis);
            at += length;
        }
    }
}

/// Why a transaction was not appended. Nothing has changed.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A checkpoint has begun since it was encoded: encode again.
    Stale,
    /// There is no room yet: wait for progress and try again.
    NoRoom(Shortage),
    /// The log has failed or was closed.
    Failed(Error),
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Prepared segments.
    Segments,
    /// Bytes that may wait for a sync.
    Unsynced,
    /// Pages that files may lack.
    Overlay,
}

/// Figures of the log.
#[derive(Debug, Default)]
pub(crate) struct LogStats {
    pub(crate) commits: AtomicU64,
    /// Transactions encoded, counted again if a checkpoint has made it necessary.
    pub(crate) encodings: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) sync_nanos: AtomicU64,
    pub(crate) last_sync_nanos: AtomicU64,
}

pub(crate) struct Log {
    state: Mutex<State>,
    /// The writer waits here for records, and [`Log::wait_durable`] for the writer.
    work: Condvar,
    progress: Condvar,
    durable: AtomicU64,
    /// A page's first image behind this position must be full. Changed under the lock.
    floor: AtomicU64,
    failed: AtomicBool,
    failure: OnceLock<String>,
    listeners: RwLock<Vec<Listener>>,
    provider: Mutex<Box<dyn Durability>>,
    segment_capacity: u64,
    pub(crate) epoch: Epoch,
    pub(crate) stats: LogStats,
}

struct State {
    pending: Batch,
    spare: Batch,
    appended: Lsn,
    room: Room,
    closed: bool,
    writer_waits: bool,
    /// The transaction that gets the next room, and what it lacks: others would take it away from a large one for ever.
    next: Option<(u64, Shortage)>,
    turns: u64,
}

#[derive(Default)]
struct Batch {
    first: Lsn,
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

/// The room in prepared segments, counted as the provider fills them.
#[derive(Default)]
struct Room {
    left: u64,
    segments: usize,
    /// The segments that a transaction waits for.
    wanted: usize,
}

impl Log {
    /// A log that goes on at `end`; nothing can be appended before [`Self::add_segment`].
    pub(crate) fn new(
        provider: Box<dyn Durability>,
        epoch: Epoch,
        end: Lsn,
        floor: Lsn,
        segment_capacity: u64,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                pending: Batch::default(),
                spare: Batch::default(),
                appended: end,
                room: Room::default(),
                closed: false,
                writer_waits: false,
                next: None,
                turns: 0,
            }),
            work: Condvar::default(),
            progress: Condvar::default(),
            durable: AtomicU64::new(end.0),
            floor: AtomicU64::new(floor.0),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            listeners: RwLock::new(Vec::new()),
            provider: Mutex::new(provider),
            segment_capacity,
            epoch,
            stats: LogStats::default(),
        }
    }

    /// Everything before this position is durable.
    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn appended(&self) -> Lsn {
        self.state.lock().appended
    }

    pub(crate) fn unsynced_bytes(&self) -> u64 {
        let appended = self.appended();
        appended.0 - self.durable().0
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The floor that deltas must be encoded against.
    pub(crate) fn floor(&self) -> Lsn {
        Lsn(self.floor.load(Ordering::Acquire))
    }

    /// Tells `listener` of each group, and once of a failure.
    pub(crate) fn subscribe(&self, listener: Listener) {
        let mut listeners = self
            .listeners
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        listeners.push(listener);
    }

    /// Appends a transaction. Returns the position that must be durable before anyone outside may see its effect.
    pub(crate) fn append(&self, transaction: &mut Transaction) -> Result<Lsn, Refused> {
        let mut state = self.state.lock();
        if self.failed() || state.closed {
            return Err(Refused::Failed(self.failure()));
        }
        if self.floor() != transaction.floor {
            return Err(Refused::Stale);
        }
        if let Some((turn, shortage)) = state.next
            && transaction.turn != Some(turn)
        {
            return Err(Refused::NoRoom(shortage));
        }
        if let Err(shortage) = state.take_room(transaction, self.segment_capacity) {
            let turn = transaction.turn.unwrap_or(state.turns);
            transaction.turn = Some(turn);
            state.turns = state.turns.max(turn + 1);
            state.next = Some((turn, shortage));
            return Err(Refused::NoRoom(shortage));
        }
        if transaction.turn.take().is_some() {
            state.next = None;
            self.progress.notify_all();
        }
        let durable = self.durable();
        let mut at = 0;
        for &length in &transaction.lengths {
            let lsn = state.appended.advance(at);
            record::stamp(&mut transaction.bytes[at..], lsn, durable);
            at += length;
        }
        if state.pending.bytes.is_empty() {
            state.pending.first = state.appended;
        }
        state.pending.bytes.extend_from_slice(&transaction.bytes);
        state
            .pending
            .lengths
            .extend_from_slice(&transaction.lengths);
        state.appended = state.appended.advance(at);
        let end = state.appended;
        let wake = std::mem::take(&mut state.writer_waits);
        drop(state);
        if wake {
            self.work.notify_all();
        }
        self.stats.commits.fetch_add(1, Ordering::Relaxed);
        Ok(end)
    }

    /// An error once the log has failed or was closed.
    pub(crate) fn must_be_open(&self) -> Result<()> {
        if self.failed() || self.state.lock().closed {
            return Err(self.failure());
        }
        Ok(())
    }

    /// A transaction that was refused does not try again: it no longer waits for segments, and others may go on.
    pub(crate) fn give_up(&self, transaction: &mut Transaction) {
        if let Some(turn) = transaction.turn.take() {
            let mut state = self.state.lock();
            if state.next.is_some_and(|(next, _)| next == turn) {
                state.next = None;
                state.room.wanted = 0;
                self.progress.notify_all();
            }
        }
    }

    /// Adds a prepared segment's room.
    pub(crate) fn add_segment(&self) {
        self.state.lock().room.segments += 1;
        self.progress.notify_all();
    }

    /// The number of segments that are ready and not yet begun.
    pub(crate) fn segments_ready(&self) -> usize {
        self.state.lock().room.segments
    }

    /// Bytes of records that a segment holds.
    pub(crate) fn segment_capacity(&self) -> u64 {
        self.segment_capacity
    }

    /// Bytes of records that fit the segments that are there.
    pub(crate) fn room(&self) -> u64 {
        let room = &self.state.lock().room;
        room.left + room.segments as u64 * self.segment_capacity
    }

    /// True if a transaction waits for more than one segment.
    pub(crate) fn wants_segments_at_once(&self) -> bool {
        self.state.lock().room.wanted > 1
    }

    /// True if so many segments should be prepared ahead, or a transaction waits for more.
    pub(crate) fn wants_segment(&self, ahead: usize) -> bool {
        let room = &self.state.lock().room;
        room.segments < ahead.max(room.wanted)
    }

    /// Wakes everybody who waits for room, to look again.
    pub(crate) fn notify_progress(&self) {
        self.progress.notify_all();
    }

    /// Waits a moment for a group to be written or a segment to be added.
    pub(crate) fn wait_for_progress(&self, timeout: std::time::Duration) {
        let state = self.state.lock();
        drop(self.progress.wait_timeout(state, timeout));
    }

    /// Begins a checkpoint: from the returned position on, the first image of each page is full.
    pub(crate) fn raise_floor(&self) -> Lsn {
        let state = self.state.lock();
        if !broken(Variant::FloorNotRaised) {
            self.floor.store(state.appended.0, Ordering::Release);
        }
        state.appended
    }

    /// Writes one group, if there is anything to write. True if there was.
    pub(crate) fn write_group(&self) -> bool {
        let mut provider = self.provider.lock();
        let mut batch = {
            let mut state = self.state.lock();
            if state.pending.bytes.is_empty() || self.failed() {
                return false;
            }
            let spare = std::mem::take(&mut state.spare);
            std::mem::replace(&mut state.pending, spare)
        };
        let begun = Instant::now();
        let group = Group {
            first: batch.first,
            bytes: &batch.bytes,
            lengths: &batch.lengths,
        };
        let durable = batch.first.advance(batch.bytes.len());
        if let Err(reason) = provider.append(&group) {
            self.poison(&match reason {
                NotDurable::Fenced => "another owner has taken over".to_owned(),
                NotDurable::Unknown(error) => format!("a write or sync of the log failed: {error}"),
            });
            return false;
        }
        let nanos = begun.elapsed().as_nanos() as u64;
        self.stats.sync_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.stats.last_sync_nanos.store(nanos, Ordering::Relaxed);
        self.stats.groups.fetch_add(1, Ordering::Relaxed);
        self.stats
            .bytes
            .fetch_add(batch.bytes.len() as u64, Ordering::Relaxed);
        self.reached(durable);
        if batch.bytes.capacity() <= MAX_UNSYNCED_BYTES {
            batch.bytes.clear();
            batch.lengths.clear();
            self.state.lock().spare = batch;
        }
        self.progress.notify_all();
        true
    }

    /// Everything before this position is durable now.
    fn reached(&self, durable: Lsn) {
        self.durable.store(durable.0, Ordering::Release);
        self.tell(Progress::Durable(durable));
    }

    /// The writer's thread: writes groups until the log is closed and empty, or fails.
    pub(crate) fn run_writer(&self) {
        loop {
            while self.write_group() {}
            let mut state = self.state.lock();
            if self.failed() {
                return;
            }
            while state.pending.bytes.is_empty() {
                if state.closed {
                    return;
                }
                state.writer_waits = true;
                state = self.work.wait(state);
            }
        }
    }

    /// Returns when everything up to `lsn` is durable. `write` is for a log without a writer's thread.
    pub(crate) fn wait_durable(&self, lsn: Lsn, write: bool) -> Result<()> {
        while self.durable() < lsn {
            if self.failed() {
                return Err(self.failure());
            }
            if write {
                self.write_group();
                continue;
            }
            let state = self.state.lock();
            if self.durable() < lsn && !self.failed() {
                drop(
                    self.progress
                        .wait_timeout(state, std::time::Duration::from_millis(100)),
                );
            }
        }
        Ok(())
    }

    /// Refuses appends from now on; the writer ends when it has written what is there.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
    }

    /// The log has failed, here or in whoever calls: nothing becomes durable any more.
    pub(crate) fn poison(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok() {
            self.failed.store(true, Ordering::Release);
            tracing::error!(
                why,
                "the commit log has failed; nothing more is acknowledged, restart to recover"
            );
            self.tell(Progress::Failed);
            self.work.notify_all();
            self.progress.notify_all();
        }
    }

    fn failure(&self) -> Error {
        Error::log_failed(self.failure.get().map_or("it was closed", String::as_str))
    }

    fn tell(&self, progress: Progress) {
        let listeners = self
            .listeners
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(progress);
        }
    }
}

impl State {
    /// Takes room for a transaction, or says what there is too little of.
    fn take_room(&mut self, transaction: &Transaction, segment: u64) -> Result<(), Shortage> {
        // A group alone may pass the bound, or a large transaction could never be appended.
        let unsynced = self.pending.bytes.len();
        if unsynced > 0 && unsynced + transaction.bytes.len() > MAX_UNSYNCED_BYTES {
            return Err(Shortage::Unsynced);
        }
        if !self.room.take(&transaction.lengths, segment) {
            return Err(Shortage::Segments);
        }
        Ok(())
    }
}

impl Room {
    /// Takes room for records of these lengths, or nothing at all.
    fn take(&mut self, lengths: &[usize], segment: u64) -> bool {
        let (mut left, mut used) = (self.left, 0);
        for &length in lengths {
            if length as u64 > left {
                used += 1;
                left = segment;
            }
            left -= length as u64;
        }
        if used > self.segments {
            self.wanted = self.wanted.max(used);
            return false;
        }
        self.left = left;
        self.segments -= used;
        if used >= self.wanted {
            self.wanted = 0;
        }
        true
    }
}
