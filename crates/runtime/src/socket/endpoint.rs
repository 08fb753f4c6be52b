//! The gateway's end of a socket.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use abide_storage::MemoryUse;

use super::{
    Close, CloseAhead, CloseFrame, Delivery, Frame, Link, Message, SocketOwner, WebSocket,
    WebSocketOptions, code,
};
use crate::{
    Error, Event, Result,
    clock::Sleep,
    context,
    envelope::{Envelope, Replier},
    gate::Departure,
    holder::Holder,
    limits::{WEBSOCKET_MEMORY_PATIENCE, WEBSOCKET_RETRY, WEBSOCKET_TIGHT_BUFFER},
    router::Phase,
};

/// The gateway's end of an accepted socket: supplies the frames to write to the peer, and takes the messages that were
/// read.
///
/// Created by [`ClientSocket::claim`](super::ClientSocket::claim). If it is dropped without [`end`](Self::end), the
/// object is notified that the connection broke (1006).
pub struct Endpoint {
    link: Arc<Link>,
    /// Set while a message waits for delivery, or for memory to continue reading.
    stalled: Option<Stalled>,
    /// Bytes of the arriving message.
    arriving: u64,
}

/// A waiting message: since when it waits, and when to check again if nothing wakes us.
struct Stalled {
    since: Duration,
    alarm: Sleep,
}

impl Endpoint {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        link.owner().mailbox().counters.sockets_open.add();
        Self {
            link,
            stalled: None,
            arriving: 0,
        }
    }

    /// The node's WebSocket options.
    pub fn options(&self) -> &WebSocketOptions {
        self.owner().options()
    }

    /// A handle for closing this socket from elsewhere.
    pub fn handle(&self) -> EndpointHandle {
        EndpointHandle(Arc::clone(&self.link))
    }

    /// Takes the next frame to write. It counts against the send buffer until it is passed to
    /// [`written`](Self::written).
    pub fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Frame> {
        match self.link.take(cx.waker()) {
            Some(frame) => Poll::Ready(frame),
            None => Poll::Pending,
        }
    }

    /// Records that a frame has been written to the peer.
    pub fn written(&self, frame: &Frame) {
        self.link.written(frame);
        if let Frame::Message(message) = frame {
            let counters = &self.owner().mailbox().counters;
            counters.socket_messages_out.add();
            counters.socket_bytes_out.add_many(message.len() as u64);
        }
    }

    /// Ready once the object or the node has requested the close, with its place in the queue. For a gateway whose peer
    /// takes nothing: it learns of the close without taking the frames before it.
    pub fn poll_close_ahead(&self, cx: &mut Context<'_>) -> Poll<CloseAhead> {
        match self.link.close_ahead(cx.waker()) {
            Some(ahead) => Poll::Ready(ahead),
            None => Poll::Pending,
        }
    }

    /// Passes the message in `waiting` to the object and leaves `None`; or answers it on the object's behalf, if it has
    /// set an auto-response. Pending while too many messages of this socket are in flight, or the object's worker is
    /// overloaded: the gateway must then stop reading.
    ///
    /// In a handler of another object the message leaves through that object's output gate.
    ///
    /// An error means that the node did not accept the message, and that the socket must be closed with the given code:
    /// 1013 if this lasted too long, 1001 if the node is stopping, 1011 if a task started by another object delivers
    /// it.
    pub fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        waiting: &mut Option<Message>,
    ) -> Poll<Result<(), CloseFrame>> {
        let Some(message) = waiting.take() else {
            return Poll::Ready(Ok(()));
        };
        let owner = self.link.owner();
        if let Some(answer) = owner.auto_responses.answer(&message) {
            self.count_in(&message);
            self.link.auto_responded(owner.router.clock.unix_millis());
            self.link.push(answer, None);
            return Poll::Ready(Ok(()));
        }
        let Ok(sender) = context::sender(Holder::Program) else {
            return Poll::Ready(Err(CloseFrame::of(
                code::INTERNAL_ERROR,
                "an object can send only inside its handlers: use `ctx.spawn(…)`",
            )));
        };
        if owner.router.phase() != Phase::Running {
            return Poll::Ready(Err(CloseFrame::of(
                code::GOING_AWAY,
                "the server is stopping",
            )));
        }
        let bytes = message.len();
        let patience = owner.options().delivery_patience;
        if self.is_out_of_memory() {
            *waiting = Some(message);
            return self.poll_stalled(cx, patience_without_memory(bytes as u64, patience));
        }
        // Admission first: a message in flight must also leave it.
        if owner.mailbox().admit().is_err() || !self.link.begin_in_flight(bytes, cx.waker()) {
            *waiting = Some(message);
            return self.poll_stalled(cx, patience);
        }
        self.count_in(&message);
        self.stalled = None;
        let socket = WebSocket::new(Arc::clone(&self.link));
        let delivery = Delivery::of_message(socket.clone(), bytes);
        let envelope = self.envelope(Event::WebSocketMessage { socket, message }, delivery);
        match sender {
            Some(object) => object.push(Departure::SocketEvent(envelope)),
            None => owner.mailbox().post_admitted(envelope),
        }
        Poll::Ready(Ok(()))
    }

    /// Reports the size of an unfinished message so far. It is charged to the memory budget.
    pub fn arriving(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.arriving, bytes as u64);
        if before != self.arriving {
            let memory = &self.owner().mailbox().memory;
            memory.take(MemoryUse::Sockets, self.arriving);
            memory.give(MemoryUse::Sockets, before);
        }
    }

    /// Ready if the gateway may continue reading. Pending while the memory budget is used up and a large part of a
    /// message has already arrived.
    ///
    /// An error means that this lasted too long, and that the socket must be closed with the given code.
    pub fn poll_read_on(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseFrame>> {
        if self.arriving > WEBSOCKET_TIGHT_BUFFER as u64 && self.is_out_of_memory() {
            let patience = self.options().delivery_patience;
            return self.poll_stalled(cx, patience_without_memory(self.arriving, patience));
        }
        if self.arriving > 0 {
            self.stalled = None;
        }
        Poll::Ready(Ok(()))
    }

    fn is_out_of_memory(&self) -> bool {
        let memory = self.owner().mailbox().memory.budget();
        let is_over = memory.is_over();
        if is_over && self.stalled.is_none() {
            memory.count_refusal(MemoryUse::Sockets);
        }
        is_over
    }

    /// The next frame, considered written at once: [`poll_frame`](Self::poll_frame) for a peer that always reads.
    pub async fn next_frame(&mut self) -> Frame {
        let frame = poll_fn(|cx| self.poll_frame(cx)).await;
        self.written(&frame);
        frame
    }

    /// Passes a message to the object: [`poll_deliver`](Self::poll_deliver) as a future.
    pub async fn deliver(&mut self, message: impl Into<Message>) -> Result<(), CloseFrame> {
        let mut waiting = Some(message.into());
        poll_fn(|cx| self.poll_deliver(cx, &mut waiting)).await
    }

    /// Ends the socket after a closing handshake started by either side.
    pub fn end(self, close: CloseFrame) {
        self.tell_end(close, true);
    }

    /// Ends the socket because of an error: the object gets the error event, then the close event with 1006.
    pub fn fail(self, error: Error) {
        let socket = WebSocket::new(Arc::clone(&self.link));
        let delivery = Delivery::of_end(socket.clone());
        self.post(Event::WebSocketError { socket, error }, delivery);
    }

    fn tell_end(&self, close: CloseFrame, was_clean: bool) {
        if !self.link.end() {
            return;
        }
        self.owner().mailbox().counters.sockets_open.subtract();
        let socket = WebSocket::new(Arc::clone(&self.link));
        let delivery = Delivery::of_end(socket.clone());
        let event = Event::WebSocketClose {
            socket,
            close: Close {
                code: close.code,
                reason: close.reason.into(),
                was_clean,
            },
        };
        self.post(event, delivery);
    }

    /// Notifies the object of the socket's end, unless the node has ended. If another object served the socket as its
    /// client, the event goes through that object's output gate, after its messages.
    fn post(&self, event: Event, delivery: Delivery) {
        let envelope = self.envelope(event, delivery);
        match context::current() {
            Some(object) => object.push(Departure::SocketEvent(envelope)),
            None => self.owner().mailbox().post_admitted(envelope),
        }
    }

    fn envelope(&self, event: Event, delivery: Delivery) -> Envelope {
        let owner = self.owner();
        Envelope {
            binding: owner.binding,
            id: owner.id,
            name: None,
            event,
            replier: Replier::for_socket(delivery, owner.mailbox()),
            chain: None,
            creator: owner.creator,
            from_outside: false,
        }
    }

    fn poll_stalled(
        &mut self,
        cx: &mut Context<'_>,
        patience: Duration,
    ) -> Poll<Result<(), CloseFrame>> {
        let clock = &self.link.owner().router.clock;
        let stalled = self.stalled.get_or_insert_with(|| Stalled {
            since: clock.now(),
            alarm: clock.sleep_until(clock.now() + WEBSOCKET_RETRY),
        });
        loop {
            if clock.now() >= stalled.since + patience {
                self.stalled = None;
                return Poll::Ready(Err(CloseFrame::of(
                    code::TRY_AGAIN_LATER,
                    "the object is overloaded",
                )));
            }
            if stalled.alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            stalled.alarm = clock.sleep_until(clock.now() + WEBSOCKET_RETRY);
            cx.waker().wake_by_ref();
        }
    }

    fn count_in(&self, message: &Message) {
        let counters = &self.owner().mailbox().counters;
        counters.socket_messages_in.add();
        counters.socket_bytes_in.add_many(message.len() as u64);
    }

    fn owner(&self) -> &SocketOwner {
        self.link.owner()
    }
}

/// How long a message waits for memory. Large messages hold the memory that others wait for: if none of them gave up,
/// all would wait forever. They check for memory one at a time, so once the first have given up, the rest continue.
fn patience_without_memory(bytes: u64, patience: Duration) -> Duration {
    if bytes > WEBSOCKET_TIGHT_BUFFER as u64 {
        patience.min(WEBSOCKET_MEMORY_PATIENCE)
    } else {
        patience
    }
}

/// An object's socket ends with its connection, however that ends.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.arriving(0);
        self.tell_end(CloseFrame::of(code::ABNORMAL, ""), false);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// Closes a socket from outside its connection.
#[derive(Clone)]
pub struct EndpointHandle(Arc<Link>);

impl EndpointHandle {
    /// Closes the socket, after the frames in its send buffer.
    pub fn close(&self, close: CloseFrame) {
        self.0.close(close);
    }
}

impl fmt::Debug for EndpointHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointHandle").finish_non_exhaustive()
    }
}
