//! What an object's code is given of itself.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use abide_storage::Bookmark;
use tokio::sync::oneshot;

use crate::{
    Alarm, AlarmInfo, AlarmTime, Env, Error, ErrorKind, LocalFuture, ObjectId, Request, Response,
    Result, Storage,
    object::Object,
    socket::{RequestResponsePair, ServerSocket, WebSocket},
};

/// An object's identity, storage and gates. Clones are cheap and are the same state.
#[derive(Clone)]
pub struct State {
    storage: Storage,
}

impl State {
    pub(crate) fn new(object: Rc<Object>) -> Self {
        Self {
            storage: Storage::new(object),
        }
    }

    /// The object's id.
    pub fn id(&self) -> ObjectId {
        self.object().id
    }

    /// What tells the object's class from others in metrics and in logs: its [unique key](crate::ClassOptions::unique_key).
    pub fn class(&self) -> &str {
        &self.object().binding.unique_key
    }

    /// The object's name, if anybody ever called it by one. It is kept with the object's data.
    pub fn name(&self) -> Option<String> {
        self.object().name()
    }

    /// The object's storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The environment: other objects, shared values.
    pub fn env(&self) -> &Env {
        &self.object().worker.env
    }

    /// The alarm that is being handled, if one is.
    ///
    /// Its scheduled time may be later than the clock shows: the alarm was [a wait](crate::ScheduledTime), and the wall clock has
    /// been set back since by at least the difference.
    pub fn current_alarm(&self) -> Option<AlarmInfo> {
        self.object().current_alarm()
    }

    /// The alarm of this name. An object has as many alarms as it has names for, up to 1,000, beside its
    /// [own](Storage::set_alarm).
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # use abide::{AlarmInfo, Result, State};
    /// # use std::time::Duration;
    /// # struct Auction { state: State }
    /// # impl Auction {
    /// fn open(&self) -> Result<()> {
    ///     self.state.alarm("close").set(Duration::from_secs(3600))?;
    ///     self.state.alarm("remind").set(Duration::from_secs(3000))
    /// }
    ///
    /// async fn alarm(&self, info: AlarmInfo) -> Result<()> {
    ///     match info.name.as_deref() {
    ///         Some("close") => self.close(),
    ///         Some("remind") => self.remind(),
    ///         _ => Ok(()),
    ///     }
    /// }
    /// # fn close(&self) -> Result<()> { Ok(()) }
    /// # fn remind(&self) -> Result<()> { Ok(()) }
    /// # }
    /// ```
    pub fn alarm(&self, name: &str) -> Alarm {
        Alarm::new(Rc::clone(self.object()), name)
    }

    /// The alarms with names that are set, in the order of their names, and their times.
    pub fn alarms(&self) -> Result<Vec<(String, AlarmTime)>> {
        self.object().named_alarms()
    }

    /// Has the alarm of this name handled here and not by the class: to be called when a component is opened, in the object's
    /// constructor. Such an alarm is never given up: it is tried until it succeeds, at most a minute apart, whatever
    /// [`ClassOptions::alarm_retry`](crate::ClassOptions::alarm_retry) says.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the alarm has a handler already.
    pub fn on_alarm<F: Future<Output = Result<()>> + 'static>(
        &self,
        name: &str,
        handler: impl Fn(AlarmInfo) -> F + 'static,
    ) -> Result<()> {
        let handler = Rc::new(move |info| -> LocalFuture<_> { Box::pin(handler(info)) });
        self.object().on_alarm(name, handler)
    }

    /// Runs a future to its end before anything else may happen in this object: events that arrive wait, and so
    /// do handlers that already run. It starts right away, whether or not the returned future is awaited, so
    /// that a constructor can use it.
    ///
    /// If it fails, or takes longer than 30 s, the object is reset.
    ///
    /// The future owns what it uses: hand it a clone of the `State`, and share memory through an `Rc`.
    pub fn block_concurrency_while<R: 'static>(
        &self,
        future: impl Future<Output = Result<R>> + 'static,
    ) -> BlockConcurrency<R> {
        let (done, result) = oneshot::channel();
        let started = self.object().block(Box::pin(async move {
            let value = future.await?;
            // A constructor does not wait for the value.
            let _ = done.send(value);
            Ok(())
        }));
        BlockConcurrency {
            result: started.map(|()| result),
        }
    }

    /// Runs a future beside the handlers, in the object's gates. While it runs the object stays in memory, and a
    /// node that stops waits for it as for a handler.
    ///
    /// It begins when the current poll has committed. If it is not done within
    /// [`ClassOptions::background_timeout`](crate::ClassOptions), it is dropped where it waits: what it wrote
    /// before stays, a line is logged, and the object lives on. Nothing of it survives the process; work that
    /// must be done some time belongs in storage.
    ///
    /// An error says that too much background work runs already.
    pub fn wait_until(&self, future: impl Future<Output = ()> + 'static) -> Result<()> {
        self.object().wait_until(Box::pin(future))
    }

    /// Resets the object when the current poll ends: what this poll wrote is rolled back, everything that
    /// runs or waits answers with this reason, and the next event starts the object anew.
    pub fn abort(&self, reason: impl Into<String>) {
        self.object()
            .reset_after_turn(Error::with_kind(ErrorKind::Reset, reason.into()));
    }

    /// Brings the object back to a bookmark: the object starts anew when the current poll has ended, and is restored before any of
    /// its code runs. Returns the bookmark that undoes it, that of the state at the end of this poll.
    ///
    /// A handler returns after it: what the poll answers and sends leaves as always, and what would follow another `await` does not
    /// run. Whoever else waits for the object learns that it was reset; messages of sockets that have not begun find the
    /// restored state. For a restore later see
    /// [`Storage::on_next_session_restore`](crate::Storage::on_next_session_restore), whose errors these are, too.
    pub fn restore(&self, bookmark: &Bookmark) -> Result<Bookmark> {
        let undo = self.storage().on_next_session_restore(bookmark)?;
        self.object().restart_after_turn();
        Ok(undo)
    }

    /// Has a component of the object answer operators' requests: to be called when the component is opened. `component` is the
    /// name under which `/objects/{class}/{object}/components/{component}/…` of the admin listener reaches it; the request has
    /// the rest of that path, the query and the body. GET and HEAD change nothing.
    ///
    /// The answer passes the output gate like that of a `fetch`. The error is [`ErrorKind::Input`] if the object has a component of
    /// this name already.
    pub fn serve_operations<F: Future<Output = Result<Response>> + 'static>(
        &self,
        component: &str,
        answer: impl Fn(Request) -> F + 'static,
    ) -> Result<()> {
        let answer = Rc::new(move |request| -> LocalFuture<_> { Box::pin(answer(request)) });
        self.object().serve_operations(component, answer)
    }

    /// Has the call that is in its method in this poll not remembered under its idempotency key: the same call with the same
    /// key runs the method again. It is for a refusal that may not hold another time, such as "full", of a method that
    /// has changed nothing. A call without a key is not remembered anyway.
    pub fn forget_call(&self) {
        self.object().forget_call();
    }

    /// Takes a WebSocket: from now on its messages and its end are events of this object. It may have up to 10 tags of
    /// at most 256 bytes each, by which [`get_websockets`](Self::get_websockets) finds it; a tag given twice counts once.
    ///
    /// The object need not stay in memory for it (the socket hibernates). A turn that fails after it does not undo
    /// it; the client's end is then not answered, and the socket ends with 1006.
    pub fn accept_websocket(&self, server: ServerSocket, tags: &[&str]) -> Result<WebSocket> {
        self.object().accept_websocket(server.0, tags)
    }

    /// Opens a WebSocket to another server, when what the object wrote before is durable; then it is like one that the
    /// object has accepted: its messages are events of the object, which may hibernate meanwhile.
    ///
    /// The request's URI is `ws://…` or `wss://…`; its headers go along. An object that is reset keeps the socket, a
    /// process that ends does not: an object that needs it opens it again when it next runs.
    pub async fn connect_websocket(
        &self,
        request: http::Request<()>,
        tags: &[&str],
    ) -> Result<WebSocket> {
        self.object().connect_websocket(request, tags).await
    }

    /// The object's WebSockets that have not ended, in the order in which it accepted them: all, or those with a tag.
    /// One that the object has closed is among them until its peer has confirmed.
    pub fn get_websockets(&self, tag: Option<&str>) -> Vec<WebSocket> {
        self.object().websockets(tag)
    }

    /// The tags that a WebSocket was accepted with.
    pub fn tags(&self, ws: &WebSocket) -> Vec<String> {
        ws.tags()
    }

    /// Lets the gateway answer one text message on all WebSockets of this object, without waking it; `None` ends that.
    /// It takes effect when what the object wrote before is durable, and lasts until the object is out of memory and
    /// has no WebSockets.
    pub fn set_websocket_auto_response(&self, pair: Option<RequestResponsePair>) -> Result<()> {
        self.object().set_auto_response(pair.map(Arc::new))
    }

    /// The pair that was set last.
    pub fn get_websocket_auto_response(&self) -> Option<RequestResponsePair> {
        self.object().auto_response().as_deref().cloned()
    }

    fn object(&self) -> &Rc<Object> {
        self.storage.object()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// The outcome of [`State::block_concurrency_while`].
#[derive(Debug)]
pub struct BlockConcurrency<R> {
    result: Result<oneshot::Receiver<R>>,
}

impl<R> Future for BlockConcurrency<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        match &mut self.result {
            Ok(result) => Pin::new(result).poll(cx).map_err(|_| {
                Error::with_kind(
                    ErrorKind::Reset,
                    "the object was reset while it blocked concurrency",
                )
            }),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
