//! What an object's code does its work with.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use abide_storage::{Bookmark, MemoryCharge, MemoryUse};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    Activation, Alarm, AlarmInfo, Env, Error, ErrorKind, LocalFuture, ObjectId, Request, Response,
    Result, Sql, Storage, Timeline, Timestamp,
    object::{CallerGone, Duties, Object},
    socket::{Audience, Message, RequestResponsePair, WebSocket},
};

/// The context of an object: its identity, storage, alarms, sockets and gates. Clones are cheap and are the same context.
#[derive(Clone)]
pub struct Ctx {
    storage: Storage,
    env: Env,
}

impl Ctx {
    /// `env` is the environment for objects.
    pub(crate) fn new(object: Rc<Object>, env: Env) -> Self {
        Self {
            storage: Storage::new(object),
            env,
        }
    }

    /// The object's id.
    pub fn id(&self) -> ObjectId {
        self.object().id
    }

    /// The label of the object's class in metrics and logs: its [unique key](crate::ClassOptions::unique_key).
    pub fn class(&self) -> &str {
        &self.object().binding.unique_key
    }

    /// The object's name, if it was ever called by one. It is stored with the object's data.
    pub fn name(&self) -> Option<String> {
        self.object().name()
    }

    /// The object's storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The object's SQLite database: short for `ctx.storage().sql()`.
    pub fn sql(&self) -> Sql {
        self.storage.sql()
    }

    /// The time of the node's clock, which a test can move.
    pub fn now(&self) -> Timestamp {
        self.env().now()
    }

    /// The environment: other objects, shared values.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The alarm being handled, if any.
    ///
    /// Its scheduled time may be later than the clock's present time: the alarm was [a wait](crate::ScheduledTime), and
    /// the wall clock has since been set back by at least the difference.
    pub fn current_alarm(&self) -> Option<AlarmInfo> {
        self.object().current_alarm()
    }

    /// The alarm with this name. An object may have up to 1,000 named alarms, besides its [unnamed
    /// alarm](Storage::set_alarm).
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # use abide::{AlarmInfo, Result, Ctx};
    /// # use std::time::Duration;
    /// # struct Auction { ctx: Ctx }
    /// # impl Auction {
    /// fn open(&self) -> Result<()> {
    ///     self.ctx.alarm("close").set(Duration::from_secs(3600))?;
    ///     self.ctx.alarm("remind").set(Duration::from_secs(3000))
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

    /// The named alarms that are set, sorted by name, and their times.
    pub fn alarms(&self) -> Result<Vec<(String, Timestamp)>> {
        self.object().named_alarms()
    }

    /// Registers a handler for the alarm with this name, instead of the class's: call it when a component is opened, in
    /// the object's constructor. See also [`Alarm::never_given_up`].
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the alarm already has a handler.
    pub fn on_alarm<F: Future<Output = Result<()>> + 'static>(
        &self,
        name: &str,
        handler: impl Fn(AlarmInfo) -> F + 'static,
    ) -> Result<()> {
        let handler = Rc::new(move |info| -> LocalFuture<_> { Box::pin(handler(info)) });
        self.object().on_alarm(name, handler)
    }

    /// Charges memory that the object's code holds to the node's budget, until the charge is dropped: an object whose memory is charged
    /// leaves it when memory is short. Charge what may grow to more than a few KiB, such as a decoded document.
    pub fn charge_memory(&self, bytes: u64) -> MemoryCharge {
        let memory = &self.object().worker.mailbox.memory;
        memory.charge(MemoryUse::Objects, bytes)
    }

    /// The object's present timeline: each restore and each fork begins one. Versions that others remember are
    /// `(timeline, sequence)`, because a restore rewinds sequences.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # use abide::{Result, Ctx};
    /// # fn version(ctx: &Ctx) -> Result<String> {
    /// let seq: i64 = ctx.storage().get("seq")?.unwrap_or(0);
    /// Ok(format!("{}-{seq:016x}", ctx.timeline().id()))
    /// # }
    /// ```
    pub fn timeline(&self) -> Timeline {
        self.object().timeline()
    }

    /// Registers a function that is called once on each new timeline, before the class's
    /// [`new_timeline`](crate::DurableObject::new_timeline) and under the same rules: call it when a component is
    /// opened, in the object's constructor.
    pub fn on_timeline(&self, told: impl Fn(&Timeline) -> Result<()> + 'static) {
        self.object().on_timeline(Rc::new(told));
    }

    /// Returns whether the object is dormant: a fork, or an object that was restored so, which has not been activated.
    ///
    /// A dormant object answers calls, but does nothing unasked: its alarms do not go off. A component that works in the
    /// background does not begin while this is true. The object restarts when it is activated.
    pub fn is_dormant(&self) -> bool {
        self.object().is_dormant()
    }

    /// Ends the object's dormancy, in the transaction of the current poll; see
    /// [`Node::activate`](crate::Node::activate). Afterwards the object [restarts](Self::restart), so a handler should
    /// return.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the object is not dormant. The error of a component or the class resets the object, which
    /// stays dormant.
    pub fn activate(&self, how: Activation) -> Result<()> {
        self.object().activate(how)
    }

    /// Registers a function that is called when the object is activated and then restarts: with
    /// [`Activation::Fresh`], a component drops the work that it has inherited. It is called before the class's
    /// [`activated`](crate::DurableObject::activated) and under the same rules: call it when a component is opened, in
    /// the object's constructor.
    pub fn on_activation(&self, activated: impl Fn(Activation) -> Result<()> + 'static) {
        self.object().on_activation(Rc::new(activated));
    }

    /// Registers a function that is called before the object leaves memory, before the class's
    /// [`leaving`](crate::DurableObject::leaving) and under the same rules: call it when a component is opened, in the
    /// object's constructor.
    pub fn on_leave(&self, leaving: impl Fn() -> Result<()> + 'static) {
        self.object().on_leave(Rc::new(leaving));
    }

    /// Registers a function that is called when the object has left memory, and can no longer be used: call it when a
    /// component is opened. A component that keeps functions of the program drops them here. They may own clones of the
    /// component, and would keep it, and themselves, in memory forever.
    pub fn on_end(&self, ended: impl FnOnce() + 'static) {
        self.object().on_end(Box::new(ended));
    }

    /// Runs a future to completion before anything else may happen in this object: arriving events wait, and so do
    /// running handlers. It starts immediately, whether or not the returned future is awaited, so a constructor can use
    /// it.
    ///
    /// If it fails, or takes longer than 30 s, the object is reset.
    ///
    /// The future owns what it uses: pass it a clone of the `Ctx`, and share memory through an `Rc`.
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

    /// Runs a future in the background, inside the object's gates. While it runs, the object stays in memory, and a
    /// stopping node waits for it as for a handler.
    ///
    /// It begins when the current poll has committed. If it is not done within
    /// [`ClassOptions::background_timeout`](crate::ClassOptions), it is dropped at its current `await`: its earlier
    /// writes stay, a warning is logged, and the object continues to run. It does not survive the process; work that
    /// must eventually be done belongs in storage.
    ///
    /// Returns an error if too much background work is already running.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Result<()> {
        self.object().spawn_background(Box::pin(future))
    }

    /// Resets the object when the current poll ends: the poll's writes are rolled back, everything that runs or waits
    /// is answered with this reason, and the next event starts the object again.
    pub fn abort(&self, reason: impl Into<String>) {
        self.object()
            .reset_after_turn(Error::with_kind(ErrorKind::Reset, reason.into()));
    }

    /// Restores the object to a bookmark: the object restarts when the current poll has ended, and is restored before
    /// any of its code runs. It starts without a call, even if the process ends first, so the alarms of the restored state go
    /// off at their times. Returns the bookmark that undoes it, that of the state at the end of this poll.
    ///
    /// A handler should return afterwards: the poll's answers and messages are sent as usual, but code after another
    /// `await` does not run. All other waiting callers get an error that the object was reset; socket messages that
    /// have not begun find the restored state. To restore later, use
    /// [`Storage::restore_at_next_start`](crate::Storage::restore_at_next_start), which has the same errors.
    pub fn restore(&self, bookmark: &Bookmark) -> Result<Bookmark> {
        self.object().restore_after_turn(bookmark)
    }

    /// Restarts the object when the current poll has ended: its writes are kept and its answers and messages are sent,
    /// unlike with [`abort`](Self::abort), and the next event creates the object anew. An object that has deleted
    /// everything, tables included, restarts so that its constructor creates them again.
    ///
    /// A handler should return afterwards: code after another `await` does not run. Callers that wait get an error that
    /// the object was reset.
    pub fn restart(&self) {
        self.object().restart_after_turn("the object was restarted");
    }

    /// Lets a component of the object answer operators' requests: call it when the component is opened. `component` is
    /// the name under which `/objects/{class}/{object}/components/{component}/…` of the admin listener reaches it; the
    /// request has the rest of that path, the query and the body. GET and HEAD change nothing.
    ///
    /// The answer passes the output gate like that of a `fetch`. The error is [`ErrorKind::Input`] if the object
    /// already has a component with this name.
    pub fn serve_operations<F: Future<Output = Result<Response>> + 'static>(
        &self,
        component: &str,
        answer: impl Fn(Request) -> F + 'static,
    ) -> Result<()> {
        let answer = Rc::new(move |request| -> LocalFuture<_> { Box::pin(answer(request)) });
        self.object().serve_operations(component, answer)
    }

    /// Registers what a component answers; call it when the component is opened, with the name of its alarm. `has_work`
    /// says whether the component still has something to do or to keep, such as messages that wait for an operator,
    /// whether or not its alarm is set.
    pub fn has_duties(&self, component: &str, has_work: impl Fn() -> Result<bool> + 'static) {
        self.object().has_duties(Duties {
            component: component.into(),
            has_work: Rc::new(has_work),
        });
    }

    /// Registers a function that is called when the object has [deleted everything](crate::Storage::delete_all), in the
    /// transaction that does it, which may be rolled back: call it when a component is opened. The component forgets what it
    /// knows of its tables, and creates them again when it is next used.
    pub fn on_delete_all(&self, deleted: impl Fn() + 'static) {
        self.object().on_delete_all(Rc::new(deleted));
    }

    /// True if the object has work: a component says so (see [`has_duties`](Self::has_duties)), or an alarm is set that
    /// belongs to the object itself or to a component that does not say whether it has work.
    pub fn has_work(&self) -> Result<bool> {
        self.object().has_work()
    }

    /// Completes when the caller of the running handler has stopped waiting: it has dropped the call, its time limit has
    /// passed, or it was an HTTP client that has disconnected. (An HTTP/1 client that closes its connection looks for 10 s
    /// like one that still reads.) A handler that does not ask runs to its end.
    ///
    /// Use it to end long work early, at an `await`; what was written before remains. It never completes in an alarm, in a
    /// socket's event, in background work, or in a call with an idempotency key, whose result is kept for the caller that
    /// repeats it.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # use abide::{Ctx, Error, Result};
    /// # async fn render() -> Result<String> { Ok(String::new()) }
    /// async fn report(ctx: &Ctx) -> Result<String> {
    ///     tokio::select! {
    ///         report = render() => report,
    ///         () = ctx.caller_gone() => Err(Error::new("the caller has stopped waiting")),
    ///     }
    /// }
    /// ```
    pub fn caller_gone(&self) -> CallerGone {
        self.object().caller_gone()
    }

    /// Prevents the call whose method is running in this poll from being remembered under its idempotency key: a
    /// repeated call with the same key runs the method again. Use it for a rejection that may be temporary, such as
    /// "full", in a method that has changed nothing. A call without a key is not remembered anyway.
    pub fn forget_call(&self) {
        self.object().forget_call();
    }

    /// Accepts the WebSocket that a request asks for: answer the request with the response, which may get headers such as
    /// `Sec-WebSocket-Protocol`; the gateway adds those of the protocol itself. From now on the socket's messages and its
    /// end are events of this object. It may have up to 10 tags of at most 256 bytes each, by which
    /// [`websockets_with_tag`](Self::websockets_with_tag) finds it; duplicate tags count once.
    ///
    /// The object need not stay in memory for it (the socket hibernates). A turn that fails afterwards does not undo
    /// it. If the response is dropped, or its client is gone, the socket ends with 1006.
    ///
    /// ```
    /// use abide_runtime::{Ctx, Response, Result};
    ///
    /// fn join(ctx: &Ctx) -> Result<Response> {
    ///     let (socket, response) = ctx.accept_websocket(&["lobby"])?;
    ///     socket.send("welcome")?;
    ///     Ok(response)
    /// }
    /// ```
    pub fn accept_websocket(&self, tags: &[&str]) -> Result<(WebSocket, Response)> {
        let (socket, client) = self.object().accept_websocket(tags)?;
        Ok((socket, client.into_response()))
    }

    /// Opens a WebSocket to another server, once the object's earlier writes are durable; then it behaves like an
    /// accepted socket: its messages are events of the object, which may hibernate in the meantime.
    ///
    /// The request's URI is `ws://…` or `wss://…`; its headers are sent, too. The socket survives a reset of the
    /// object, but not the end of the process: an object that needs it reopens it when it next runs.
    pub async fn connect_websocket(
        &self,
        request: http::Request<()>,
        tags: &[&str],
    ) -> Result<WebSocket> {
        self.object().connect_websocket(request, tags).await
    }

    /// The object's WebSockets that have not ended, in order of acceptance. A socket that the object has closed is
    /// included until its peer has confirmed.
    pub fn websockets(&self) -> Vec<WebSocket> {
        self.object().websockets(None)
    }

    /// Those of them that were accepted with this tag.
    pub fn websockets_with_tag(&self, tag: &str) -> Vec<WebSocket> {
        self.object().websockets(Some(tag))
    }

    /// Sends a message to all of the object's WebSockets: short for `ctx.audience().send(message)`, which has the same
    /// [errors](crate::socket::Audience::send).
    pub fn broadcast(&self, message: impl Into<Message>) -> Result<()> {
        self.audience().send(message)
    }

    /// Sends a value as JSON to all of the object's WebSockets.
    pub fn broadcast_json<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.audience().send_json(value)
    }

    /// The object's open WebSockets, to send them a message: all, those with a tag, or all but one.
    pub fn audience(&self) -> Audience {
        Audience::new(Rc::clone(self.object()))
    }

    /// The tags that a WebSocket was accepted with.
    pub fn tags(&self, ws: &WebSocket) -> Vec<String> {
        ws.tags()
    }

    /// Lets the gateway answer one text message on all WebSockets of this object, without waking it; `None` disables
    /// it. It takes effect once the object's earlier writes are durable, and lasts until the object is out of memory
    /// and has no WebSockets.
    pub fn set_auto_response(&self, pair: Option<RequestResponsePair>) -> Result<()> {
        self.object().set_auto_response(pair.map(Arc::new))
    }

    /// The pair that was set last.
    pub fn auto_response(&self) -> Option<RequestResponsePair> {
        self.object().auto_response().as_deref().cloned()
    }

    fn object(&self) -> &Rc<Object> {
        self.storage.object()
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// The outcome of [`Ctx::block_concurrency_while`].
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
