//! The state shared by a socket's two ends.
//!
//! The object's end pushes frames that have passed its output gate; the gateway's end takes them. The lock is held only
//! for a few assignments, so the log's writer thread may push. Code of the program, namely wakers and the destructors
//! of messages, runs after the lock was released.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use abide_storage::{MemoryUse, ObjectKey};

use super::{
    AutoResponses, CloseFrame, FrameCharge, Message, ReadyState, SlowReader, WebSocket,
    WebSocketOptions, code,
};
use crate::{
    Error, ErrorKind, ObjectId,
    creator::Creator,
    envelope::Mailbox,
    gate::{HeldBytes, Released},
    limits::{
        SOCKET_BYTES, WEBSOCKET_BURST, WEBSOCKET_BURST_PATIENCE, WEBSOCKET_FRAME_OVERHEAD,
        WEBSOCKET_TIGHT_BUFFER,
    },
    router::Router,
};

/// A frame that the gateway writes to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Message),
    /// The close frame. Nothing follows it.
    Close(CloseFrame),
}

impl Frame {
    /// Its size for the send buffer.
    fn weight(&self) -> usize {
        WEBSOCKET_FRAME_OVERHEAD
            + match self {
                Self::Message(message) => message.len(),
                Self::Close(close) => close.reason.len(),
            }
    }
}

/// The state of a frame that passes through the output gate.
pub(crate) enum Outgoing {
    /// The frame, with its memory charge.
    Frame(Frame, Option<FrameCharge>),
    /// The log has failed, so it can never be sent.
    Lost,
}

impl Outgoing {
    /// What leaves instead if its turn did not take effect or the log has failed.
    pub(crate) fn instead(&self, socket: &WebSocket, error: &Error) -> Option<Self> {
        match self {
            _ if error.kind() == ErrorKind::Unavailable => Some(Self::Lost),
            Self::Frame(Frame::Close(_), _) => {
                // Immediately: from here on the object must not see a close that never happened.
                socket.link().revert_closing();
                None
            }
            _ => None,
        }
    }
}

/// The place of a close in the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseAhead {
    /// Messages are queued before it.
    Behind,
    /// It is the next frame.
    Next,
}

/// The owner of a socket: its object and worker.
pub(crate) struct SocketOwner {
    pub(crate) router: Arc<Router>,
    pub(crate) key: ObjectKey,
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    /// Increases in order of acceptance among the sockets of one worker.
    pub(crate) serial: u64,
    pub(crate) tags: Box<[Arc<str>]>,
    pub(crate) auto_responses: Arc<AutoResponses>,
    pub(crate) held_bytes: Arc<HeldBytes>,
    /// The creator on whose behalf it was accepted.
    pub(crate) creator: Option<Creator>,
}

impl SocketOwner {
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        self.router.worker_of(&self.id)
    }

    pub(crate) fn options(&self) -> &WebSocketOptions {
        &self.router.websockets
    }
}

pub(crate) struct Link {
    /// The object that has accepted the socket.
    owner: SocketOwner,
    inner: Mutex<Inner>,
}

#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact, in any combination"
)]
struct Inner {
    /// Frames that the gateway has not taken.
    outgoing: VecDeque<(Frame, Option<FrameCharge>)>,
    /// Memory charges of frames that were taken but not written yet.
    writing: VecDeque<Option<FrameCharge>>,
    /// Weight of all frames that have not been written to the peer.
    buffered: usize,
    /// Since when it has exceeded the send buffer's size.
    behind_since: Option<Duration>,
    /// Nothing may follow in `outgoing`.
    closing: bool,
    /// The gateway's end is gone.
    ended: bool,
    /// One of its messages was lost, so none may follow.
    broken: bool,
    /// Messages that the object has not finished handling, and their bytes.
    in_flight: usize,
    in_flight_bytes: usize,
    /// The gateway waits until one of them is handled.
    wants_room: bool,
    /// The task that serves the gateway's end.
    waker: Option<Waker>,
    /// The state that the object sees.
    state: ReadyState,
    attachment: Option<Box<[u8]>>,
    auto_responded_at: Option<u64>,
}

impl Link {
    /// A new socket of an object.
    pub(crate) fn new(owner: SocketOwner) -> Self {
        let memory = &owner.mailbox().memory;
        memory.take(MemoryUse::Sockets, SOCKET_BYTES);
        Self {
            owner,
            inner: Mutex::default(),
        }
    }

    pub(crate) fn owner(&self) -> &SocketOwner {
        &self.owner
    }

    /// The object's end: a frame, or its withdrawal, has left the output gate.
    pub(crate) fn release(&self, outgoing: Released<Outgoing>) {
        match outgoing.into_inner() {
            Outgoing::Frame(Frame::Message(message), charge) => self.push(message, charge),
            Outgoing::Frame(Frame::Close(close), _) => self.close(close),
            Outgoing::Lost => self.close(CloseFrame::of(
                code::SERVICE_RESTART,
                "the server is restarting to recover",
            )),
        }
    }

    /// Puts a message into the send buffer, or applies the policy for slow readers.
    pub(crate) fn push(&self, message: Message, charge: Option<FrameCharge>) {
        let owner = self.owner();
        let frame = Frame::Message(message);
        let mut inner = self.lock();
        if inner.ended || inner.closing {
            return;
        }
        if inner.is_full(owner) {
            owner.mailbox().counters.slow_readers.add();
            if owner.options().slow_reader == SlowReader::Close {
                let unsent = std::mem::take(&mut inner.outgoing);
                inner.buffered -= unsent
                    .iter()
                    .map(|(frame, _)| frame.weight())
                    .sum::<usize>();
                drop(inner);
                self.close(CloseFrame::of(
                    code::TRY_AGAIN_LATER,
                    "messages came faster than they were read",
                ));
            }
            return;
        }
        inner.buffered += frame.weight();
        inner.outgoing.push_back((frame, charge));
        inner.update_backpressure(owner);
        wake(inner);
    }

    /// Queues the close after the frames in the send buffer. Only the first close counts.
    pub(crate) fn close(&self, close: CloseFrame) {
        let mut inner = self.lock();
        if inner.ended || inner.closing {
            return;
        }
        inner.closing = true;
        if inner.state == ReadyState::Open {
            inner.state = ReadyState::Closing;
        }
        let frame = Frame::Close(close);
        inner.buffered += frame.weight();
        inner.outgoing.push_back((frame, None));
        wake(inner);
    }

    /// The gateway's end: takes the next frame. If there is none, `waker` is woken when one arrives.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Frame> {
        let mut inner = self.lock();
        let frame = inner.outgoing.pop_front().map(|(frame, charge)| {
            inner.writing.push_back(charge);
            frame
        });
        if inner.outgoing.is_empty() {
            // An idle socket keeps no buffer.
            inner.outgoing = VecDeque::new();
        }
        if frame.is_none() {
            inner.register(waker);
        }
        frame
    }

    /// The gateway's end: records that a taken frame has been written, or dropped.
    pub(crate) fn written(&self, frame: &Frame) {
        let owner = self.owner();
        let mut inner = self.lock();
        inner.buffered = inner.buffered.saturating_sub(frame.weight());
        drop(inner.writing.pop_front());
        if inner.writing.is_empty() {
            inner.writing = VecDeque::new();
        }
        inner.update_backpressure(owner);
    }

    /// The gateway's end: the place of the close in the queue, if the object or the node has requested one. Otherwise
    /// `waker` is woken when something happens.
    pub(crate) fn close_ahead(&self, waker: &Waker) -> Option<CloseAhead> {
        let mut inner = self.lock();
        if !inner.closing {
            inner.register(waker);
            return None;
        }
        Some(match inner.outgoing.len() {
            0 | 1 => CloseAhead::Next,
            _ => CloseAhead::Behind,
        })
    }

    /// The gateway's end: counts a message as in flight if the limit allows; otherwise `waker` is woken when it may.
    pub(crate) fn begin_in_flight(&self, bytes: usize, waker: &Waker) -> bool {
        let owner = self.owner();
        let options = owner.options();
        let mut inner = self.lock();
        let full = inner.in_flight >= options.max_in_flight
            || inner.in_flight_bytes + bytes > options.max_message_bytes;
        if full && inner.in_flight > 0 {
            inner.wants_room = true;
            inner.register(waker);
            return false;
        }
        inner.in_flight += 1;
        inner.in_flight_bytes += bytes;
        let memory = &owner.mailbox().memory;
        memory.take(MemoryUse::Sockets, bytes as u64);
        true
    }

    /// The object has finished with a message.
    pub(crate) fn end_in_flight(&self, bytes: usize) {
        let mut inner = self.lock();
        inner.in_flight -= 1;
        inner.in_flight_bytes -= bytes;
        let memory = &self.owner().mailbox().memory;
        memory.give(MemoryUse::Sockets, bytes as u64);
        if std::mem::take(&mut inner.wants_room) {
            wake(inner);
        }
    }

    /// Marks the gateway's end as gone. Returns true the first time.
    pub(crate) fn end(&self) -> bool {
        let mut inner = self.lock();
        let left = (
            inner.waker.take(),
            std::mem::take(&mut inner.outgoing),
            std::mem::take(&mut inner.writing),
        );
        let first = !std::mem::replace(&mut inner.ended, true);
        drop(inner);
        drop(left);
        first
    }

    /// Records that a message is lost: the object gets none of the following ones.
    pub(crate) fn break_off(&self) {
        self.lock().broken = true;
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    pub(crate) fn state(&self) -> ReadyState {
        self.lock().state
    }

    /// Records that the object's end has requested the close, which is still at the gate.
    pub(crate) fn closing(&self) {
        self.lock().state = ReadyState::Closing;
    }

    /// Reverts that, because the close was withdrawn before it left.
    fn revert_closing(&self) {
        let mut inner = self.lock();
        if inner.state == ReadyState::Closing && !inner.closing {
            inner.state = ReadyState::Open;
        }
    }

    /// Records that the object has been notified of the socket's end.
    pub(crate) fn closed(&self) {
        self.lock().state = ReadyState::Closed;
    }

    pub(crate) fn attachment(&self) -> Option<Box<[u8]>> {
        self.lock().attachment.clone()
    }

    pub(crate) fn attach(&self, attachment: Box<[u8]>) {
        self.lock().attachment = Some(attachment);
    }

    pub(crate) fn auto_responded_at(&self) -> Option<u64> {
        self.lock().auto_responded_at
    }

    pub(crate) fn auto_responded(&self, unix_millis: u64) {
        self.lock().auto_responded_at = Some(unix_millis);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let memory = &self.owner().mailbox().memory;
        memory.give(MemoryUse::Sockets, SOCKET_BYTES);
    }
}

impl Inner {
    /// Returns whether the reader is too slow: a full burst is waiting, or it has lagged for too long.
    fn is_full(&self, owner: &SocketOwner) -> bool {
        let memory = owner.mailbox().memory.budget();
        if self.buffered > WEBSOCKET_TIGHT_BUFFER && memory.is_over() {
            memory.count_refusal(MemoryUse::Sockets);
            return true;
        }
        let Some(since) = self.behind_since else {
            return false;
        };
        let burst = owner
            .options()
            .send_buffer_bytes
            .saturating_mul(WEBSOCKET_BURST);
        self.buffered > burst || owner.router.clock.now() >= since + WEBSOCKET_BURST_PATIENCE
    }

    fn update_backpressure(&mut self, owner: &SocketOwner) {
        if self.buffered <= owner.options().send_buffer_bytes {
            self.behind_since = None;
        } else if self.behind_since.is_none() {
            self.behind_since = Some(owner.router.clock.now());
        }
    }

    fn register(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

/// Releases the lock and wakes the task that serves the gateway's end.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}
