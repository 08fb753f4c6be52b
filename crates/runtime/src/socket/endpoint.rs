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
    Close, CloseAhead, Delivery, Frame, Link, Message, SocketOwner, WebSocket, WebSocketOptions,
    code,
};
use crate::{
    Error, Event, Result,
    clock::Sleep,
    context::{self, Holder},
    envelope::{Envelope, Replier},
    gate::Departure,
    limits::{WEBSOCKET_MEMORY_PATIENCE, WEBSOCKET_RETRY, WEBSOCKET_TIGHT_BUFFER},
    router::Phase,
};

/// The gateway's end of an accepted socket: what it writes to the peer comes from here, and what it reads goes here.
///
/// Made by [`ClientSocket::claim`](super::ClientSocket::claim). When it is dropped without [`end`](Self::end) the
/// object is told that the connection broke (1006).
pub struct Endpoint {
    link: Arc<Link>,
    /// Set while a message waits to be delivered, or to be read further.
    stalled: Option<Stalled>,
    /// Bytes of the message that is arriving.
    arriving: u64,
}

/// A message waits: since when, and when to look again if nothing wakes us.
struct Stalled {
    since: Duration,
    alarm: Sleep,
}

impl Endpoint {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        if let Some(owner) = link.owner() {
            owner.mailbox().counters.sockets_open.add();
        }
        Self {
            link,
            stalled: None,
            arriving: 0,
        }
    }

    /// How the node treats its sockets.
    pub fn options(&self) -> &WebSocketOptions {
        self.owner().options()
    }

    /// A handle with which others can close this socket.
    pub fn handle(&self) -> EndpointHandle {
        EndpointHandle(Arc::clone(&self.link))
    }

    /// Takes the next frame that is to be written. It takes room in the send buffer until [`written`](Self::written) is
    /// told of it.
    pub fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Frame> {
        match self.link.take(cx.waker()) {
            Some(frame) => Poll::Ready(frame),
            None => Poll::Pending,
        }
    }

    /// A frame has been written to the peer.
    pub fn written(&self, frame: &Frame) {
        self.link.written(frame);
        if let Frame::Message(message) = frame {
            let counters = &self.owner().mailbox().counters;
            counters.socket_messages_out.add();
            counters.socket_bytes_out.add_many(message.len() as u64);
        }
    }

    /// Ready once the object or the node has asked for the close, with how far it is. For a gateway whose peer takes nothing:
    /// it learns of the close without taking the frames before it.
    pub fn poll_close_ahead(&self, cx: &mut Context<'_>) -> Poll<CloseAhead> {
        match self.link.close_ahead(cx.waker()) {
            Some(ahead) => Poll::Ready(ahead),
            None => Poll::Pending,
        }
    }

    /// Hands the message in `waiting` to the object and leaves `None`; or answers it for the object, if it has set an
    /// auto-response. Pending while too many messages of this socket are in flight, or the object's worker is
    /// overloaded: the gateway must read no further then.
    ///
    /// In a handler of another object the message leaves through that object's output gate.
    ///
    /// An error means that the node did not take the message, and the socket is to be closed as it says: 1013 if that
    /// lasted too long, 1001 if the node stops, 1011 if a task that another object has started delivers it.
    pub fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        waiting: &mut Option<Message>,
    ) -> Poll<Result<(), Close>> {
        let Some(message) = waiting.take() else {
            return Poll::Ready(Ok(()));
        };
        let owner = owner(&self.link);
        if let Some(answer) = owner.auto_responses.answer(&message) {
            self.count_in(&message);
            self.link.auto_responded(owner.router.clock.unix_millis());
            self.link.push(answer, None);
            return Poll::Ready(Ok(()));
        }
        let Ok(sender) = context::sender(Holder::Program) else {
            return Poll::Ready(Err(Close::of(
                code::INTERNAL_ERROR,
                "an object sends inside its handlers only: use `state.wait_until(…)`",
            )));
        };
        if owner.router.phase() != Phase::Running {
            return Poll::Ready(Err(Close::of(code::GOING_AWAY, "the server stops")));
        }
        let bytes = message.len();
        let patience = owner.options().delivery_patience;
        if self.is_out_of_memory() {
            *waiting = Some(message);
            return self.poll_stalled(cx, patience_without_memory(bytes as u64, patience));
        }
        // Admission first: what has entered flight must leave it.
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

    /// Tells how many bytes of an unfinished message the gateway has. They count against the memory budget.
    pub fn arriving(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.arriving, bytes as u64);
        if before != self.arriving {
            let memory = &self.owner().mailbox().memory;
            memory.take(MemoryUse::Sockets, self.arriving);
            memory.give(MemoryUse::Sockets, before);
        }
    }

    /// Ready if the gateway may read on. Pending while the memory budget is used up and much of a message is there already.
    ///
    /// An error means that this lasted too long, and the socket is to be closed as it says.
    pub fn poll_read_on(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Close>> {
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

    /// The next frame, as written at once: [`poll_frame`](Self::poll_frame) for a peer that always reads.
    pub async fn next_frame(&mut self) -> Frame {
        let frame = poll_fn(|cx| self.poll_frame(cx)).await;
        self.written(&frame);
        frame
    }

    /// Hands a message to the object: [`poll_deliver`](Self::poll_deliver) as a future.
    pub async fn deliver(&mut self, message: impl Into<Message>) -> Result<(), Close> {
        let mut waiting = Some(message.into());
        poll_fn(|cx| self.poll_deliver(cx, &mut waiting)).await
    }

    /// Ends the socket: the peer has closed it, or it has closed it with the peer.
    pub fn end(self, close: Close) {
        self.tell_end(close, true);
    }

    /// Ends the socket because of an error: the object gets the error event, then the close event with 1006.
    pub fn fail(self, error: Error) {
        let socket = WebSocket::new(Arc::clone(&self.link));
        let delivery = Delivery::of_end(socket.clone());
        self.post(Event::WebSocketError { socket, error }, delivery);
    }

    fn tell_end(&self, close: Close, was_clean: bool) {
        if !self.link.end() {
            return;
        }
        self.owner().mailbox().counters.sockets_open.subtract();
        let socket = WebSocket::new(Arc::clone(&self.link));
        let delivery = Delivery::of_end(socket.clone());
        let event = Event::WebSocketClose {
            socket,
            code: close.code,
            reason: close.reason.into(),
            was_clean,
        };
        self.post(event, delivery);
    }

    /// Tells the object of the socket's end. If the node has ended there is nobody to tell. Another object that served the
    /// socket as its client tells it through its own output gate, after its messages.
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
    ) -> Poll<Result<(), Close>> {
        let clock = &owner(&self.link).router.clock;
        let stalled = self.stalled.get_or_insert_with(|| Stalled {
            since: clock.now(),
            alarm: clock.sleep_until(clock.now() + WEBSOCKET_RETRY),
        });
        loop {
            if clock.now() >= stalled.since + patience {
                self.stalled = None;
                return Poll::Ready(Err(Close::of(
                    code::TRY_AGAIN_LATER,
                    "the object has too much to do",
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
        owner(&self.link)
    }
}

/// How long a message waits for memory. Large ones hold what the others wait for: if none of them gave way, all would wait in
/// vain. They look for memory one after the other, so once the first have given way, the rest goes on.
fn patience_without_memory(bytes: u64, patience: Duration) -> Duration {
    if bytes > WEBSOCKET_TIGHT_BUFFER as u64 {
        patience.min(WEBSOCKET_MEMORY_PATIENCE)
    } else {
        patience
    }
}

/// The socket of an object ends with its connection, however that ends.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.arriving(0);
        self.tell_end(Close::of(code::ABNORMAL, ""), false);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// A way to close a socket from beside its connection.
#[derive(Clone)]
pub struct EndpointHandle(Arc<Link>);

impl EndpointHandle {
    /// Closes the socket, after what is in its send buffer.
    pub fn close(&self, close: Close) {
        self.0.close(close);
    }
}

impl fmt::Debug for EndpointHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointHandle").finish_non_exhaustive()
    }
}

/// Every endpoint is of an accepted socket.
fn owner(link: &Link) -> &SocketOwner {
    link.owner().expect("an endpoint's socket has an owner")
}
