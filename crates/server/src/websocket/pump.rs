//! One connection: carries frames from an object's socket to the peer, and messages back, until either side ends it.
//!
//! A single future does everything, so an idle connection is one small task. It stops reading while a message waits for
//! the object (TCP then slows the peer down), and takes frames out of the send buffer only as fast as the peer receives
//! them (the send buffer then handles slow readers).
//!
//! How it ends: both sides have sent a close; or the peer disconnects or stays silent, which is 1006; or it violates
//! the protocol, and the object is notified immediately while the peer gets a close. In every case the peer has
//! [`CLOSE_TIMEOUT`](crate::limits::CLOSE_TIMEOUT) to receive what is left, or some of it if messages precede the
//! close.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use abide_runtime::{
    Error, ErrorKind,
    socket::{CloseAhead, CloseFrame, Endpoint, Frame, Message, code},
};
use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};
use tungstenite::protocol::frame::coding::Control;

use super::{
    KeepAlive, Role,
    reader::{Input, Reader, Violation},
    writer::Writer,
};
use crate::{limits::SOCKET_READ_BYTES, metric, pace::Pace};

thread_local! {
    /// The read buffer. One per thread: it is empty between polls.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SOCKET_READ_BYTES].into());
}

pub(super) struct Pump<S> {
    stream: S,
    /// `None` once the object has been notified of the end.
    endpoint: Option<Endpoint>,
    reader: Reader,
    writer: Writer,
    pace: Pace,
    /// Bytes that were read but not parsed, because an earlier message waits.
    unread: Bytes,
    /// The message waiting for the object.
    waiting: Option<Message>,
    /// The peer has not received everything to be written.
    blocked: bool,
    ending: Ending,
    /// Since when the peer has received nothing of the frames before a close, or not the close itself.
    closing: Option<Instant>,
    keep_alive: KeepAlive,
    /// When the incomplete message began.
    begun: Option<Instant>,
    /// When the peer last sent or received anything.
    heard: Instant,
    /// When it was pinged.
    asked: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

/// The progress of the close.
#[derive(Debug)]
enum Ending {
    No,
    /// Our close is being sent; theirs is awaited.
    Ours {
        since: Instant,
    },
    /// Theirs has arrived, and ours has been sent or is being sent: the connection ends when it is written.
    Both {
        since: Instant,
        theirs: CloseFrame,
    },
    /// The object knows; the peer gets the remaining frames, and is read until it closes, so that it sees our close.
    Lingering {
        since: Instant,
        shut: bool,
    },
}

impl Ending {
    fn since(&self) -> Option<Instant> {
        match self {
            Self::No => None,
            Self::Ours { since } | Self::Both { since, .. } | Self::Lingering { since, .. } => {
                Some(*since)
            }
        }
    }
}

/// The connection has ended.
struct ConnectionEnded;

impl<S: AsyncRead + AsyncWrite + Unpin> Pump<S> {
    /// `early` was received with the handshake.
    pub(super) fn new(
        role: Role,
        stream: S,
        early: Bytes,
        endpoint: Endpoint,
        keep_alive: KeepAlive,
    ) -> Self {
        let now = Instant::now();
        let first = keep_alive.ping_interval.unwrap_or(FAR);
        Self {
            reader: Reader::new(role, endpoint.options().max_message_bytes),
            writer: Writer::new(role),
            pace: Pace::new(),
            endpoint: Some(endpoint),
            stream,
            unread: early,
            waiting: None,
            blocked: false,
            ending: Ending::No,
            closing: None,
            keep_alive,
            begun: None,
            heard: now,
            asked: None,
            alarm: Box::pin(tokio::time::sleep_until(now + first)),
        }
    }

    /// Makes all possible progress.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionEnded> {
        loop {
            let wrote = self.write(cx)?;
            let read = self.read(cx)?;
            // Reading may have received a close or a ping that needs a reply.
            if !read && !wrote {
                break;
            }
        }
        self.watch(cx)
    }

    /// Takes frames and writes them. Returns whether there may be more to do immediately.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, ConnectionEnded> {
        let mut took = false;
        if let (Some(endpoint), Ending::No) = (&self.endpoint, &self.ending) {
            while self.writer.has_room() {
                let Poll::Ready(frame) = endpoint.poll_frame(cx) else {
                    break;
                };
                took = true;
                let is_close = matches!(frame, Frame::Close(_));
                self.writer.push(frame);
                if is_close {
                    let since = self.closing.unwrap_or_else(Instant::now);
                    self.ending = Ending::Ours { since };
                    break;
                }
            }
        }
        let endpoint = &self.endpoint;
        let before = self.writer.total();
        let written = self.writer.poll_write(cx, &mut self.stream, |frame| {
            if let Some(endpoint) = endpoint {
                endpoint.written(frame);
            }
        });
        let progress = self.writer.total() > before;
        if self.blocked && progress {
            // It receives what we send, if slowly: it is alive.
            self.alive();
        }
        self.blocked = written.is_pending();
        self.look_for_close(cx, progress);
        match written {
            Poll::Ready(Err(_)) => return Err(ConnectionEnded),
            Poll::Ready(Ok(())) => {}
            Poll::Pending => return Ok(false),
        }
        match &mut self.ending {
            // Nothing more may arrive; the server closes first (RFC 6455, section 7.1.1).
            Ending::Both { .. } => Err(ConnectionEnded),
            Ending::Lingering { shut, .. } if !*shut => {
                match Pin::new(&mut self.stream).poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => *shut = true,
                    Poll::Ready(Err(_)) => return Err(ConnectionEnded),
                    Poll::Pending => {}
                }
                Ok(false)
            }
            _ => Ok(took),
        }
    }

    /// If the peer receives nothing, frames stay in the send buffer; a close among them must still end the connection.
    fn look_for_close(&mut self, cx: &mut Context<'_>, progress: bool) {
        let (Some(endpoint), Ending::No, false) =
            (&self.endpoint, &self.ending, self.writer.has_room())
        else {
            return;
        };
        match endpoint.poll_close_ahead(cx) {
            Poll::Ready(CloseAhead::Behind) if progress => self.closing = Some(Instant::now()),
            Poll::Ready(_) => {
                self.closing.get_or_insert_with(Instant::now);
            }
            Poll::Pending => {}
        }
    }

    /// Delivers and reads. Returns whether there may be more to do immediately.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, ConnectionEnded> {
        if !self.deliver(cx) {
            return Ok(false);
        }
        if !self.has_memory_for_message(cx) || self.pace.paused_until().is_some() {
            return Ok(false);
        }
        if !self.unread.is_empty() {
            let bytes = std::mem::take(&mut self.unread);
            self.take_input(cx, &bytes);
            return Ok(true);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => Ok(false),
                Poll::Ready(Err(_)) => Err(ConnectionEnded),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Err(ConnectionEnded),
                Poll::Ready(Ok(())) => {
                    self.alive();
                    self.take_input(cx, buffer.filled());
                    Ok(true)
                }
            }
        })
    }

    /// Reports the size of an unfinished message. Returns false if there is no memory for more of it yet.
    fn has_memory_for_message(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(endpoint) = &mut self.endpoint else {
            return true;
        };
        endpoint.arriving(self.reader.arriving());
        match endpoint.poll_read_on(cx) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(close)) => {
                let why = format!(
                    "a WebSocket message was not read completely: {}",
                    close.reason
                );
                let error = Error::with_kind(ErrorKind::Overloaded, why);
                self.break_off(close, Some(error));
                true
            }
        }
    }

    /// Passes the waiting message to the object. Returns false if it must continue to wait.
    fn deliver(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(endpoint) = &mut self.endpoint else {
            self.waiting = None;
            return true;
        };
        match endpoint.poll_deliver(cx, &mut self.waiting) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(close)) => {
                // A message was lost, so none may follow.
                let overloaded = close.code == code::TRY_AGAIN_LATER;
                let error = overloaded.then(|| {
                    let why = format!("a WebSocket message was dropped: {}", close.reason);
                    Error::with_kind(ErrorKind::Overloaded, why)
                });
                self.break_off(close, error);
                true
            }
        }
    }

    /// Processes received bytes, and records when an incomplete message began.
    fn take_input(&mut self, cx: &mut Context<'_>, bytes: &[u8]) {
        self.parse_input(cx, bytes);
        self.pace.spend(self.reader.take_idle());
        if !self.reader.is_within_message() {
            self.begun = None;
        } else if self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
    }

    /// Parses bytes and acts on them. Bytes after a message that must wait are kept.
    fn parse_input(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) {
        while matches!(self.ending, Ending::No | Ending::Ours { .. }) {
            match self.reader.read(&mut bytes) {
                Ok(None) => return,
                Ok(Some(Input::Message(message))) => {
                    self.waiting = Some(message);
                    self.begun = None;
                    if !self.deliver(cx) {
                        self.unread = Bytes::copy_from_slice(bytes);
                        return;
                    }
                }
                Ok(Some(Input::Ping(payload))) => self.writer.control(Control::Pong, payload),
                Ok(Some(Input::Pong)) => {}
                Ok(Some(Input::Close(theirs))) => {
                    if matches!(self.ending, Ending::No) {
                        self.writer.push(Frame::Close(theirs.clone()));
                    }
                    let since = Instant::now();
                    self.ending = Ending::Both { since, theirs };
                }
                Err(Violation { code, reason }) => {
                    let kind = if code == code::TOO_BIG {
                        ErrorKind::Limit
                    } else {
                        ErrorKind::Decode
                    };
                    let error = format!("the WebSocket was closed with {code}: {reason}");
                    let error = Some(Error::with_kind(kind, error));
                    self.break_off(CloseFrame::of(code, reason), error);
                }
            }
        }
    }

    /// Notifies the object that the socket failed, and sends the peer the reason.
    fn break_off(&mut self, close: CloseFrame, error: Option<Error>) {
        match (self.endpoint.take(), error) {
            (Some(endpoint), Some(error)) => endpoint.fail(error),
            (endpoint, _) => drop(endpoint),
        }
        // The peer may take its time to close; the memory has been released.
        self.reader.give_up();
        self.begun = None;
        self.waiting = None;
        self.unread = Bytes::new();
        if matches!(self.ending, Ending::No) {
            self.writer.push(Frame::Close(close));
        }
        let since = Instant::now();
        self.ending = Ending::Lingering { since, shut: false };
    }

    /// Records that the peer is alive.
    fn alive(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Closes a socket whose message is not completed.
    fn give_up_message(&mut self) {
        metric::gave_up("websocket_message");
        let reason = "a message was not finished in time";
        let error = Error::with_kind(
            ErrorKind::Timeout,
            "a WebSocket message was not finished within websocket.message_timeout",
        );
        self.break_off(CloseFrame::of(code::POLICY_VIOLATION, reason), Some(error));
    }

    /// Checks the time limits: is the peer still there, does it finish its message, does it take too long to close?
    fn watch(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionEnded> {
        loop {
            let now = Instant::now();
            let since = self.ending.since().or(self.closing);
            let paused = self.pace.paused_until();
            let next = match (since, self.keep_alive.ping_interval) {
                (Some(since), _) => {
                    let until = since + self.keep_alive.close_timeout;
                    if now >= until {
                        return Err(ConnectionEnded);
                    }
                    until
                }
                (None, None) => now + FAR,
                // A peer that is not being read cannot be heard.
                (None, Some(interval)) if self.waiting.is_some() || paused.is_some() => {
                    self.alive();
                    now + interval
                }
                (None, Some(interval)) => match self.asked {
                    Some(asked) if now >= asked + self.keep_alive.pong_timeout => {
                        metric::silent_socket();
                        return Err(ConnectionEnded);
                    }
                    Some(asked) => asked + self.keep_alive.pong_timeout,
                    None if now >= self.heard + interval => {
                        self.asked = Some(now);
                        self.writer.control(Control::Ping, Bytes::new());
                        self.write(cx)?;
                        continue;
                    }
                    None => self.heard + interval,
                },
            };
            let unfinished = self.begun.filter(|_| since.is_none());
            let unfinished = unfinished.map(|begun| begun + self.keep_alive.message_timeout);
            if unfinished.is_some_and(|until| now >= until) {
                self.give_up_message();
                self.write(cx)?;
                continue;
            }
            let next = unfinished.map_or(next, |until| next.min(until));
            let next = paused.map_or(next, |until| next.min(until));
            // The timer may fire earlier than needed, so that not every message resets it.
            if self.alarm.deadline() > next || self.alarm.is_elapsed() {
                self.alarm.as_mut().reset(next);
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            if paused.is_some() {
                // It may be read again.
                cx.waker().wake_by_ref();
            }
        }
    }
}

/// Later than any deadline.
const FAR: Duration = Duration::from_hours(24 * 365);

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Pump<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.step(cx) {
            Ok(()) => Poll::Pending,
            Err(ConnectionEnded) => {
                // Dropping the endpoint notifies the object that the connection broke, unless it already knows.
                let endpoint = self.endpoint.take();
                if let (Some(endpoint), Ending::Both { theirs, .. }) = (endpoint, &self.ending) {
                    endpoint.end(theirs.clone());
                }
                Poll::Ready(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use abide::prelude::*;
    use abide_runtime::{Node, socket::ClientSocket};
    use abide_storage::{SimDisk, Store, StoreOptions};
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Says a lot to each client, and closes.
    #[durable_object]
    struct Talker {
        ctx: Ctx,
    }

    impl DurableObject for Talker {
        fn new(ctx: Ctx, _: Env) -> Result<Self> {
            Ok(Self { ctx })
        }

        async fn fetch(&self, _: Request) -> Result<Response> {
            let (ws, response) = self.ctx.accept_websocket(&[])?;
            for _ in 0..100 {
                ws.send("x".repeat(1_000))?;
            }
            ws.close(1000, "")?;
            Ok(response)
        }
    }

    #[tokio::test]
    async fn a_peer_that_sends_but_never_reads_is_dropped_at_the_close() {
        let disk = Arc::new(SimDisk::new());
        let store = Store::open(disk, Path::new("/data"), StoreOptions::small()).unwrap();
        let node = Node::builder(store)
            .class::<Talker>(ClassOptions::default())
            .start()
            .unwrap();
        let talker = node.env().object::<Talker>().get_by_name("talker");
        let request = Request::new(Body::empty());
        let mut response = talker.fetch(request).await.unwrap();
        let client: ClientSocket = response.extensions_mut().remove().unwrap();
        let short = Duration::from_millis(20);
        let keep_alive = KeepAlive {
            ping_interval: Some(short),
            pong_timeout: short,
            close_timeout: short,
            message_timeout: short,
        };
        let (ours, mut theirs) = tokio::io::duplex(64);
        let endpoint = client.claim().unwrap();
        let pump = Pump::new(Role::Server, ours, Bytes::new(), endpoint, keep_alive);
        let talk = async {
            // A ping without content, with a mask of zeros.
            while theirs.write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.is_ok() {
                tokio::time::sleep(short / 10).await;
            }
        };
        let both = async { tokio::join!(pump, talk) };
        tokio::time::timeout(Duration::from_secs(20), both)
            .await
            .expect("it ends");
    }
}
