//! The commit log: one for all objects of a node.
//!
//! A commit is appended under a lock. The append assigns its position, copies it if it is small or takes over its
//! buffer, and returns immediately: nothing is checksummed there. The writer (a thread, or a test that calls
//! [`Log::write_group`]) takes all gathered commits, writes the positions into the records, passes them to the
//! durability provider as one group and advances the durable LSN. No delay is added: under load, groups grow
//! while the disk is busy. The writer notifies listeners, or a separate thread does while the writer has
//! more to write ([`announcer`]).
//!
//! - An error or a panic of the provider poisons the log permanently: the durable LSN never advances again, every later
//!   append is rejected, and the listeners are notified once.
//! - Space is reserved before a record is accepted, so the disk never fills up in the middle of one ([`room`]).
//! - A record is accepted only in an open tenure of its shard ([`tenures`]).
//! - A delta may be appended only if its base has a full image after the full-image horizon. This is checked again
//!   here, under the lock, because a checkpoint can begin between encoding and appending.

mod announcer;
mod batch;
mod ending;
pub(crate) mod gate;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
pub(crate) mod local;
pub(crate) mod part;
pub(crate) mod provider;
pub(crate) mod range;
pub(crate) mod reader;
pub(crate) mod record;
mod room;
pub(crate) mod segment;
pub(crate) mod segment_pool;
mod shards;
mod stats;
pub(crate) mod tenures;
mod waiting;

use crate::error::{Error, Result};
use crate::ident::{Epoch, Lsn, Position};
use crate::limits::{MAX_UNSYNCED_BYTES, SPARE_BUFFERS};
use crate::panics::guard;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::timing;
use announcer::Announcer;
use batch::Batch;
use provider::{Durability, Group};
pub(crate) use room::Shortage;
use room::{Room, Ticket};
pub(crate) use stats::{Counter, LogStats};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tenures::{Tenure, Tenures};

/// The directory of the log in a data directory.
pub const LOG_DIR: &str = "log";

/// What a listener is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything up to this position is durable, and copied if that is awaited:
    /// [`StoreOptions::await_copy`](crate::StoreOptions::await_copy).
    Durable(Lsn),
    /// The log has failed: nothing that is not durable now will be.
    Failed,
}

type Listener = Box<dyn Fn(Progress) + Send + Sync>;

/// Called with the number of bytes that have become durable.
type WrittenHook = Box<dyn Fn(u64) + Send + Sync>;

/// An encoded transaction, ready to be appended: consecutive records, whose headers lack only the position and the
/// time.
#[derive(Default)]
pub(crate) struct Transaction {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lengths: Vec<usize>,
    /// The horizon that its deltas were encoded against.
    pub(crate) full_image_horizon: Lsn,
    /// The tenure in which it was made.
    pub(crate) tenure: Tenure,
    /// The time of the commit.
    pub(crate) time: WallTime,
    /// Its place in the queue for log space.
    ticket: Option<Ticket>,
}

impl Transaction {
    fn stamp_time(&mut self) {
        let mut at = 0;
        for length in &self.lengths {
            record::set_time(&mut self.bytes[at..], self.time.unix_millis);
            at += length;
        }
    }
}

/// A reading of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WallTime {
    /// Milliseconds since 1970.
    pub(crate) unix_millis: u64,
    /// How many steps back of the clock this process had seen before.
    pub(crate) steps: u64,
}

/// The position of a transaction in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) start: Lsn,
    /// The position that must be durable before anyone outside may see the transaction's effect.
    pub(crate) end: Lsn,
}

/// Why a transaction was not appended. Nothing has changed.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Since it was encoded a checkpoint has begun, or the clock was set back: encode again, with a new time.
    Stale,
    /// There is no space yet: wait with [`Log::wait_for_room`] and retry, or [`Log::give_up`].
    NoRoom(Shortage),
    /// Its tenure is not open in this log.
    Moved,
    /// The log has failed or was closed.
    Failed(Error),
}

/// One append in this many is measured: reading the clock costs as much as appending.
pub(crate) const MEASURED: u64 = 64;

pub(crate) struct Log {
    state: Mutex<State>,
    /// The writer waits here for records.
    work: Condvar,
    /// Threads that wait for durability or for space.
    progress: Condvar,
    announcer: Announcer,
    /// A page's first image after this position must be a full image. Changed under the lock.
    full_image_horizon: AtomicU64,
    /// Changed under the lock, so that a time that was read before a step is not appended after it.
    clock_steps: AtomicU64,
    failure: OnceLock<String>,
    written: OnceLock<WrittenHook>,
    provider: Mutex<Box<dyn Durability>>,
    /// When the provider received its current group.
    writing_since: Mutex<Option<Instant>>,
    pub(crate) epoch: Epoch,
    pub(crate) stats: LogStats,
}

struct State {
    pending: Batch,
    /// The buffers of the last group, reused for the next one.
    spare: Batch,
    buffers: Vec<Vec<u8>>,
    appended: Lsn,
    /// The newest time of the wall clock that a commit had, since the last known step back; milliseconds since 1970.
    newest_millis: u64,
    room: Room,
    tenures: Tenures,
    closed: bool,
    writer_waits: bool,
    /// The writer's thread has ended.
    writer_ended: bool,
}

impl Log {
    /// A log that continues at `end`; nothing can be appended before [`Self::add_segment`]. A segment holds at most
    /// `largest_segment` bytes of records.
    pub(crate) fn new(
        provider: Box<dyn Durability>,
        epoch: Epoch,
        end: Lsn,
        full_image_horizon: Lsn,
        largest_segment: u64,
    ) -> Self {
        let room = Room::new(MAX_UNSYNCED_BYTES, largest_segment);
        Self::with_room(provider, epoch, end, full_image_horizon, room)
    }

    fn with_room(
        provider: Box<dyn Durability>,
        epoch: Epoch,
        end: Lsn,
        full_image_horizon: Lsn,
        room: Room,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                pending: Batch::default(),
                spare: Batch::default(),
                buffers: Vec::new(),
                appended: end,
                newest_millis: 0,
                room,
                tenures: Tenures::of_all(epoch.into()),
                closed: false,
                writer_waits: false,
                writer_ended: false,
            }),
            work: Condvar::default(),
            progress: Condvar::default(),
            announcer: Announcer::new(end),
            full_image_horizon: AtomicU64::new(full_image_horizon.0),
            clock_steps: AtomicU64::new(0),
            failure: OnceLock::new(),
            written: OnceLock::new(),
            provider: Mutex::new(provider),
            writing_since: Mutex::default(),
            epoch,
            stats: LogStats::default(),
        }
    }

    /// Nothing is released before [`Self::copied`] has said that it is copied.
    pub(crate) fn await_copies(&mut self) {
        self.announcer.await_copies();
    }

    /// Owns no shard before [`Self::open_shard`].
    pub(crate) fn own_nothing(&mut self) {
        self.state.lock().tenures = Tenures::of_none();
    }

    /// Has `written` called with the number of bytes that have become durable here.
    pub(crate) fn on_written(&self, written: WrittenHook) {
        // There is one.
        let _ = self.written.set(written);
    }

    /// Everything before this position is durable on this machine.
    pub(crate) fn durable(&self) -> Lsn {
        self.announcer.durable()
    }

    /// Everything before this position is durable and, if that is awaited, copied: others may see it.
    pub(crate) fn released(&self) -> Lsn {
        self.announcer.released()
    }

    /// Everything before this position is copied.
    pub(crate) fn copied(&self, lsn: Lsn) {
        {
            let _state = self.state.lock();
            if self.failed() || !self.announcer.note_copied(lsn) {
                return;
            }
        }
        self.progress.notify_all();
        if !self.announcer.hand_over() {
            self.announcer.notify();
        }
    }

    /// A position of this log among those of all logs.
    pub(crate) fn position(&self, lsn: Lsn) -> Position {
        Position::at(self.epoch.into(), lsn)
    }

    pub(crate) fn appended(&self) -> Lsn {
        self.state.lock().appended
    }

    pub(crate) fn unsynced_bytes(&self) -> u64 {
        let durable = self.durable();
        self.appended().0 - durable.0
    }

    pub(crate) fn failed(&self) -> bool {
        self.announcer.failed()
    }

    /// The full-image horizon that deltas must be encoded against.
    pub(crate) fn full_image_horizon(&self) -> Lsn {
        Lsn(self.full_image_horizon.load(Ordering::Acquire))
    }

    /// Notifies `listener` of what is released, and once of a failure.
    pub(crate) fn subscribe(&self, listener: Listener) {
        self.announcer.subscribe(listener);
    }

    /// The number of listener panics, and the time spent in listeners.
    pub(crate) fn listeners(&self) -> (u64, Duration) {
        self.announcer.stats()
    }

    /// Appends a transaction and takes its bytes, leaving it empty.
    pub(crate) fn append(&self, transaction: &mut Transaction) -> Result<Appended, Refused> {
        let measured = self.stats.commits.get().is_multiple_of(MEASURED);
        let begun = measured.then(timing::now);
        let mut state = self.state.lock();
        let locked = measured.then(timing::now);
        if self.failed() || state.closed {
            return Err(Refused::Failed(self.failure()));
        }
        if !state.tenures.has(transaction.tenure) {
            return Err(Refused::Moved);
        }
        if self.full_image_horizon() != transaction.full_image_horizon
            || self.clock_steps() != transaction.time.steps
        {
            return Err(Refused::Stale);
        }
        let State {
            room,
            pending,
            buffers,
            appended,
            newest_millis,
            ..
        } = &mut *state;
        room.take(&mut transaction.ticket, &transaction.lengths)
            .map_err(Refused::NoRoom)?;
        *newest_millis = transaction.time.unix_millis.max(*newest_millis);
        transaction.stamp_time();
        let start = *appended;
        let end = start.advance(transaction.bytes.len());
        *appended = end;
        if pending.buffers.is_empty() {
            pending.first = start;
        }
        pending.push(transaction, buffers);
        let next_in_queue = room.is_awaited();
        let wake = std::mem::take(&mut state.writer_waits);
        drop(state);
        if let (Some(begun), Some(locked)) = (begun, locked) {
            self.stats.append_held_nanos.add_time(locked.elapsed());
            self.stats.append_wait_nanos.add_time(locked - begun);
        }
        if wake {
            self.work.notify_all();
        }
        if next_in_queue {
            self.progress.notify_all();
        }
        self.stats.commits.add(1);
        Ok(Appended { start, end })
    }

    /// How many steps back of the clock this process has seen.
    pub(crate) fn clock_steps(&self) -> u64 {
        self.clock_steps.load(Ordering::Acquire)
    }

    /// The end of the log, and the newest time so far of the wall clock; `None` if the clock was set back since `now`.
    pub(crate) fn clock_at_end(&self, now: WallTime) -> Option<(Lsn, u64)> {
        let mut state = self.state.lock();
        if self.clock_steps() != now.steps {
            return None;
        }
        state.newest_millis = now.unix_millis.max(state.newest_millis);
        Some((state.appended, state.newest_millis))
    }

    /// Begins again with the newest time, because the clock was set back. Returns how many steps back this process has
    /// seen: what is appended from here on has been read after all of them.
    pub(crate) fn begin_clock(&self, unix_millis: u64) -> u64 {
        let mut state = self.state.lock();
        state.newest_millis = unix_millis;
        self.clock_steps.fetch_add(1, Ordering::Release) + 1
    }

    /// How much earlier this time is than the newest known one.
    pub(crate) fn clock_behind(&self, unix_millis: u64) -> u64 {
        let newest = self.state.lock().newest_millis;
        newest.saturating_sub(unix_millis)
    }

    /// Gives up the queue place of a transaction that was rejected for lack of space.
    pub(crate) fn give_up(&self, transaction: &mut Transaction) {
        if transaction.ticket.is_some() && self.state.lock().room.leave(&mut transaction.ticket) {
            self.progress.notify_all();
        }
    }

    /// Adds a prepared segment's capacity, in bytes of records. Segments are used in the order in which they are added.
    pub(crate) fn add_segment(&self, capacity: u64) {
        self.state.lock().room.add_segment(capacity);
        self.progress.notify_all();
    }

    /// The number of prepared segments that have not been begun.
    pub(crate) fn segments_ready(&self) -> usize {
        self.state.lock().room.segments()
    }

    /// Bytes of the first queued transaction that do not fit the prepared segments.
    pub(crate) fn missing_room(&self) -> u64 {
        self.state.lock().room.missing()
    }

    /// Bytes of records that fit the available segments.
    pub(crate) fn room(&self) -> u64 {
        self.state.lock().room.bytes()
    }

    /// Returns whether a transaction waits for more than one segment.
    pub(crate) fn wants_segments_at_once(&self) -> bool {
        self.state.lock().room.wants_segments_at_once()
    }

    /// Returns whether `ahead` segments are not prepared yet, or a transaction waits for more.
    pub(crate) fn wants_segment(&self, ahead: usize) -> bool {
        self.state.lock().room.wants_segment(ahead)
    }

    /// Begins a checkpoint: from the returned position on, the first image of each page is a full image.
    pub(crate) fn advance_full_image_horizon(&self) -> Lsn {
        let state = self.state.lock();
        self.full_image_horizon
            .store(state.appended.0, Ordering::Release);
        state.appended
    }

    /// Writes one group, if there is anything to write. Returns whether there was.
    pub(crate) fn write_group(&self) -> bool {
        let mut provider = self.provider.lock();
        let Some(mut batch) = self.take_pending() else {
            return false;
        };
        let begun = timing::now();
        *self.writing_since.lock() = Some(begun);
        let written = guard(|| {
            batch.stamp(self.durable());
            provider.append(&Group {
                first: batch.first,
                buffers: &batch.buffers,
                lengths: &batch.lengths,
            })
        });
        *self.writing_since.lock() = None;
        let sync = match written {
            Ok(Ok(sync)) => sync,
            Ok(Err(error)) => {
                self.poison(&format!("a write or sync of the log failed: {error}"));
                return false;
            }
            Err(why) => {
                self.poison(&format!("the log's writer panicked: {why}"));
                return false;
            }
        };
        let nanos = begun.elapsed().as_nanos() as u64;
        self.stats.provider_nanos.add(nanos);
        self.stats.sync_nanos.add_time(sync);
        self.stats.last_group_nanos.set(nanos);
        self.stats.groups.add(1);
        let bytes = batch.bytes as u64;
        self.stats.bytes.add(bytes);
        let Some(state) = self.reached(batch.end()) else {
            return false;
        };
        let more = self.recycle(state, batch);
        if let Some(written) = self.written.get() {
            written(bytes);
        }
        self.progress.notify_all();
        // The next group does not wait for listeners. Without a next group, notifying them here is fastest.
        if more && self.announcer.hand_over() {
            self.stats.overlapped.add(1);
        } else {
            let begun = timing::now();
            self.announcer.notify();
            self.stats.release_nanos.add_time(begun.elapsed());
        }
        true
    }

    /// How long the provider has been working on its current group.
    pub(crate) fn group_wait(&self) -> Option<Duration> {
        self.writing_since.lock().map(|since| since.elapsed())
    }

    /// How long a thread has been notifying listeners.
    pub(crate) fn listener_wait(&self) -> Option<Duration> {
        self.announcer.wait()
    }

    fn take_pending(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        if state.pending.buffers.is_empty() || self.failed() {
            return None;
        }
        let spare = std::mem::take(&mut state.spare);
        Some(std::mem::replace(&mut state.pending, spare))
    }

    /// Keeps the buffers of a written group. Returns whether there is another one.
    fn recycle(&self, mut state: MutexGuard<'_, State>, mut batch: Batch) -> bool {
        state.room.synced(batch.bytes);
        let more = !state.pending.buffers.is_empty();
        drop(state);
        let mut kept = batch.clear();
        let mut state = self.state.lock();
        let free = SPARE_BUFFERS.saturating_sub(state.buffers.len());
        kept.truncate(free);
        state.buffers.append(&mut kept);
        state.spare = batch;
        more
    }

    /// Marks everything before this position as durable, unless the log has failed in the meantime.
    fn reached(&self, durable: Lsn) -> Option<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if self.failed() {
            return None;
        }
        self.announcer.note(Progress::Durable(durable));
        Some(state)
    }

    /// The body of the writer's thread: writes groups until the log is closed and empty, or fails.
    pub(crate) fn run_writer(&self) {
        if let Err(why) = guard(|| self.write_groups()) {
            self.poison(&format!("the log's writer panicked: {why}"));
        }
        self.state.lock().writer_ended = true;
        self.progress.notify_all();
        self.announcer.stop();
    }

    fn write_groups(&self) {
        loop {
            while self.write_group() {}
            let mut state = self.state.lock();
            while state.pending.buffers.is_empty() || self.failed() {
                if state.closed || self.failed() {
                    return;
                }
                state.writer_waits = true;
                state = self.work.wait(state);
            }
        }
    }

    /// The body of the thread that notifies listeners in parallel with the writer. It ends after the writer.
    pub(crate) fn run_announcer(&self) {
        self.announcer.run();
    }
}
