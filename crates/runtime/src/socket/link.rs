//! What a socket's two ends share.
//!
//! The object's end pushes frames that have passed its output gate; the gateway's end takes them. The lock is held for
//! a few assignments only, so the log's writer thread may push.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Waker,
};

use abide_storage::ObjectKey;

use super::{AutoResponses, Close, Message, ReadyState, SlowReader, WebSocketOptions, code};
use crate::{
    Error, ErrorKind, ObjectId, envelope::Mailbox, gate::Released,
    limits::WEBSOCKET_FRAME_OVERHEAD, router::Router,
};

/// What the gateway writes to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Message),
    /// The close. Nothing follows it.
    Close(Close),
}

impl Frame {
    /// What it counts in the send buffer. There is one close at most, and it always has room.
    fn weight(&self) -> usize {
        match self {
            Self::Message(message) => weight(message),
            Self::Close(_) => 0,
        }
    }
}

/// A frame on its way through the output gate, or what became of it.
pub(crate) enum Outgoing {
    Frame(Frame),
    /// There was no room for a message, and the node closes such sockets.
    Overflow,
    /// The turn that sent it did not take effect.
    Withdrawn(Frame),
    /// The log has failed, so it can never be sent.
    Lost,
}

impl Outgoing {
    pub(crate) fn into_failed(self, error: &Error) -> Self {
        match self {
            _ if error.kind() == ErrorKind::Unavailable => Self::Lost,
            Self::Frame(frame) => Self::Withdrawn(frame),
            // The close that would follow is what is withdrawn.
            Self::Overflow => Self::Withdrawn(Frame::Close(slow_reader())),
            other => other,
        }
    }
}

/// Where a socket's object lives.
pub(crate) struct Home {
    pub(crate) router: Arc<Router>,
    pub(crate) key: ObjectKey,
    pub(crate) binding: usize,
    pub(crate) id: ObjectId,
    /// Rises in order of acceptance among the sockets of one worker.
    pub(crate) serial: u64,
    pub(crate) tags: Box<[Arc<str>]>,
    pub(crate) auto_responses: Arc<AutoResponses>,
}

impl Home {
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        self.router.worker_of(&self.id)
    }

    pub(crate) fn options(&self) -> &WebSocketOptions {
        &self.router.websockets
    }
}

#[derive(Default)]
pub(crate) struct Link {
    /// Set when an object accepts the socket.
    home: OnceLock<Home>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Frames that the gateway has not taken.
    outgoing: VecDeque<Frame>,
    /// Weight of all messages that the object has sent and that have not been written to the peer: at the output gate,
    /// in `outgoing`, or with the gateway.
    buffered: usize,
    /// Nothing may follow in `outgoing`.
    closing: bool,
    /// The gateway's end is gone.
    ended: bool,
    /// Messages that the object has not finished handling, and their bytes.
    in_flight: usize,
    in_flight_bytes: usize,
    /// The gateway waits until one of them is handled.
    wants_room: bool,
    /// Whoever serves the gateway's end.
    waker: Option<Waker>,
    /// As the object sees it.
    state: ReadyState,
    attachment: Option<Box<[u8]>>,
    auto_responded_at: Option<u64>,
}

impl Link {
    pub(crate) fn home(&self) -> Option<&Home> {
        self.home.get()
    }

    /// Gives the socket to an object. False if another has it.
    pub(crate) fn settle(&self, home: Home) -> bool {
        self.home.set(home).is_ok()
    }

    /// The object's end: a frame, or its withdrawal, has left the output gate.
    pub(crate) fn release(&self, outgoing: Released<Outgoing>) {
        match outgoing.into_inner() {
            Outgoing::Frame(Frame::Message(message)) => self.push(Frame::Message(message)),
            Outgoing::Overflow => self.overflow(),
            Outgoing::Frame(Frame::Close(close)) => self.close(close),
            Outgoing::Withdrawn(Frame::Close(_)) => {
                let mut inner = self.lock();
                if inner.state == ReadyState::Closing && !inner.closing {
                    inner.state = ReadyState::Open;
                }
            }
            Outgoing::Withdrawn(frame) => self.give_back(&frame),
            Outgoing::Lost => self.close(Close::of(
                code::SERVICE_RESTART,
                "the server restarts to recover",
            )),
        }
    }

    /// Takes room in the send buffer for a message. False, and counted, if there is none.
    pub(crate) fn reserve(&self, message: &Message) -> bool {
        let Some(home) = self.home() else {
            return false;
        };
        let weight = weight(message);
        let mut inner = self.lock();
        let limit = home.options().send_buffer_bytes;
        let fits = inner.ended || inner.buffered == 0 || inner.buffered + weight <= limit;
        if !inner.ended && fits {
            inner.buffered += weight;
        }
        if !fits {
            home.mailbox().counters.slow_readers.add();
        }
        fits
    }

    /// A message that the gateway itself has for the peer.
    pub(crate) fn answer(&self, message: Message) {
        if self.reserve(&message) {
            self.push(Frame::Message(message));
        } else if self.closes_slow_readers() {
            self.overflow();
        }
    }

    /// What happens to a socket whose send buffer is full.
    pub(crate) fn closes_slow_readers(&self) -> bool {
        self.home()
            .is_some_and(|home| home.options().slow_reader == SlowReader::Close)
    }

    /// Puts a message, which has room, into the send buffer.
    fn push(&self, frame: Frame) {
        let mut inner = self.lock();
        if inner.ended || inner.closing {
            inner.give_back(&frame);
            return;
        }
        inner.outgoing.push_back(frame);
        inner.wake();
    }

    /// Closes a socket that is too slow, in place of what it has not read.
    fn overflow(&self) {
        {
            let mut inner = self.lock();
            if inner.closing {
                return;
            }
            for frame in std::mem::take(&mut inner.outgoing) {
                inner.give_back(&frame);
            }
        }
        self.close(slow_reader());
    }

    /// Puts the close after what is in the send buffer. Only the first close counts.
    pub(crate) fn close(&self, close: Close) {
        let mut inner = self.lock();
        if inner.ended || inner.closing {
            return;
        }
        inner.closing = true;
        if inner.state == ReadyState::Open {
            inner.state = ReadyState::Closing;
        }
        inner.outgoing.push_back(Frame::Close(close));
        inner.wake();
    }

    /// The gateway's end: takes the next frame. If there is none, `waker` is woken when there is.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Frame> {
        let mut inner = self.lock();
        let frame = inner.outgoing.pop_front();
        if inner.outgoing.is_empty() {
            // An idle socket keeps no buffer.
            inner.outgoing = VecDeque::new();
        }
        if frame.is_none() {
            inner.register(waker);
        }
        frame
    }

    /// A frame needs its room no more: it has been written, or never will be.
    pub(crate) fn give_back(&self, frame: &Frame) {
        self.lock().give_back(frame);
    }

    /// The gateway's end: counts a message in flight if there is room; otherwise `waker` is woken when there may be.
    pub(crate) fn enter_flight(&self, bytes: usize, waker: &Waker) -> bool {
        let Some(home) = self.home() else {
            return false;
        };
        let options = home.options();
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
        true
    }

    /// The object has finished with a message.
    pub(crate) fn leave_flight(&self, bytes: usize) {
        let mut inner = self.lock();
        inner.in_flight -= 1;
        inner.in_flight_bytes -= bytes;
        if std::mem::take(&mut inner.wants_room) {
            inner.wake();
        }
    }

    /// The gateway's end is gone. True the first time.
    pub(crate) fn end(&self) -> bool {
        let mut inner = self.lock();
        inner.waker = None;
        inner.outgoing = VecDeque::new();
        inner.buffered = 0;
        !std::mem::replace(&mut inner.ended, true)
    }

    pub(crate) fn state(&self) -> ReadyState {
        self.lock().state
    }

    /// The object's end has asked for the close, which is still on its way through the gate.
    pub(crate) fn closing(&self) {
        self.lock().state = ReadyState::Closing;
    }

    /// The object learns that the socket has ended.
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

fn weight(message: &Message) -> usize {
    WEBSOCKET_FRAME_OVERHEAD + message.len()
}

fn slow_reader() -> Close {
    Close::of(
        code::TRY_AGAIN_LATER,
        "messages came faster than they were read",
    )
}

impl Inner {
    fn give_back(&mut self, frame: &Frame) {
        // An ended socket has no buffer, so whatever is sent to it has room and gives none back.
        if !self.ended {
            self.buffered -= frame.weight();
        }
    }

    fn register(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
