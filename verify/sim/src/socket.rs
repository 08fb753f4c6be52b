//! Clients' WebSockets, as a gateway serves them.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use abide::{
    Body, Message, Request,
    socket::{ClientSocket, CloseFrame, Endpoint, Frame},
};
use tokio::sync::mpsc;

use crate::{
    classes::Ledger,
    history::{Carrier, Event, ObjectNo, Recorder, SocketNo, Value},
    life::Life,
};

/// A client's end. Dropping it breaks its connection.
pub(crate) struct Socket {
    pub(crate) object: ObjectNo,
    says: mpsc::UnboundedSender<Value>,
}

impl Socket {
    /// Opens a WebSocket.
    pub(crate) fn open(life: &Life, number: SocketNo, object: ObjectNo) -> Self {
        let (says, said) = mpsc::unbounded_channel();
        let ledger = life
            .env()
            .object::<Ledger>()
            .get_by_name(&object.to_string());
        let answer = ledger.fetch(Request::new(Body::empty()));
        let recorder = life.recorder.clone();
        life.executor.spawn(async move {
            let endpoint = answer.await.ok().and_then(|mut response| {
                let client: ClientSocket = response.extensions_mut().remove()?;
                client.claim().ok()
            });
            if let Some(endpoint) = endpoint {
                let connection = Connection {
                    endpoint,
                    said,
                    waiting: None,
                };
                connection.serve(&recorder, number, object).await;
            }
            recorder.note(Event::Closed(number));
        });
        Self { object, says }
    }

    /// Returns whether its connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.says.is_closed()
    }

    /// Sends a value, if the connection still exists.
    pub(crate) fn say(&self, value: Value) {
        let _ = self.says.send(value);
    }
}

struct Connection {
    endpoint: Endpoint,
    said: mpsc::UnboundedReceiver<Value>,
    waiting: Option<Message>,
}

/// The next event of a connection.
enum Next {
    Frame(Frame),
    /// The node accepts nothing more.
    Refused(CloseFrame),
    /// The client has disconnected.
    Gone,
}

impl Connection {
    async fn serve(mut self, recorder: &Recorder, number: SocketNo, object: ObjectNo) {
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Next::Frame(Frame::Message(message)) => hear(recorder, number, object, &message),
                Next::Frame(Frame::Close(close)) | Next::Refused(close) => {
                    return self.endpoint.end(close);
                }
                // Dropping the endpoint notifies the object.
                Next::Gone => return,
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Poll::Ready(frame) = self.endpoint.poll_frame(cx) {
            self.endpoint.written(&frame);
            return Poll::Ready(Next::Frame(frame));
        }
        loop {
            if self.waiting.is_none() {
                match self.said.poll_recv(cx) {
                    Poll::Ready(Some(value)) => self.waiting = Some(value.to_string().into()),
                    Poll::Ready(None) => return Poll::Ready(Next::Gone),
                    Poll::Pending => return Poll::Pending,
                }
            }
            match self.endpoint.poll_deliver(cx, &mut self.waiting) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(close)) => return Poll::Ready(Next::Refused(close)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

fn hear(recorder: &Recorder, number: SocketNo, object: ObjectNo, message: &Message) {
    let mut parts = message
        .as_text()
        .into_iter()
        .flat_map(str::split_whitespace);
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok());
    if let (Some(casts), Some(version), Some(last)) = (next(), next(), next()) {
        recorder.note(Event::Heard(number, object, casts));
        recorder.note(Event::Seen {
            object,
            version,
            last: (version > 0).then_some(last),
            by: Carrier::Frame,
        });
    }
}
