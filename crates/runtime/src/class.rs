//! Classes: the interface between the runtime and the code of objects.
//!
//! The runtime knows only [`Class`] (creates an instance) and [`Instance`] (takes an event, answers later). Both are
//! dyn-compatible and use the language-neutral [`Event`] and [`Reply`]. A Rust class implements [`DurableObject`],
//! `#[durable_object]` adds [`ObjectClass`], and [`Native`] adapts that to this interface.

use std::{borrow::Cow, future::Future, marker::PhantomData, pin::Pin, rc::Rc, time::Duration};

use abide_macros::Setters;

use crate::{
    Activation, AlarmInfo, AlarmRetry, AnyStub, Ctx, Env, Error, ErrorKind, Event, Reply, Request,
    Response, Result, Storage, Timeline, context, limits,
    rpc::Args,
    socket::{Close, Message, WebSocket},
};

/// A future that stays on its thread.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A kind of object, as the runtime sees it.
pub trait Class: Send + Sync + 'static {
    /// The class's name, for messages and metrics.
    fn name(&self) -> &str;

    /// Creates the instance of an object when it enters memory. Runs inside the object's first poll: its writes commit
    /// with that poll, and are rolled back if it fails.
    fn instantiate(&self, ctx: Ctx, env: Env) -> Result<Box<dyn Instance>>;
}

/// One object's code and memory.
pub trait Instance: 'static {
    /// Begins to handle an event. The future is polled on the object's thread, inside its gates.
    fn deliver(&self, event: Event) -> LocalFuture<Result<Reply>>;
}

/// A durable object written in Rust.
///
/// Put `#[durable_object]` on the struct. Its handlers take `&self`: while one waits at an `await`, another may run, so
/// mutable state in memory belongs in a `Cell` or `RefCell`.
///
/// An `async` handler is one transaction from each `await` to the next, and keeps what it wrote when it returns an `Err`.
/// With `#[durable_object]` on the `impl` block as well, a handler that has nothing to await can be a plain `fn` that
/// returns its `Result`: it is then one transaction, and an `Err` undoes everything that it wrote. What it sent is sent, so
/// send last.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `DurableObject`",
    note = "write `impl DurableObject for {Self} {{ fn new(ctx: Ctx, env: Env) -> Result<Self> {{ … }} }}`"
)]
pub trait DurableObject: Sized + 'static {
    /// Creates the object when its first event arrives, after a start or an eviction.
    ///
    /// Storage is synchronous, so this is the place to read and migrate a schema. Work that must be awaited goes into
    /// [`Ctx::block_concurrency_while`]. An error is returned to the callers and rolls back the writes, and the next
    /// event tries again.
    fn new(ctx: Ctx, env: Env) -> Result<Self>;

    /// Answers an HTTP request.
    fn fetch(&self, request: Request) -> impl Future<Output = Result<Response>> {
        let _ = request;
        std::future::ready(Err(Error::with_kind(
            ErrorKind::NotFound,
            "this object does not answer HTTP requests: its class has no `fetch`",
        )))
    }

    /// Handles the object's unnamed alarm, at the time passed to [`Storage::set_alarm`](crate::Storage::set_alarm) or
    /// soon after, and its [named alarms](Ctx::alarm); at least once.
    ///
    /// When it returns `Ok`, the alarm is done, in the transaction of the last poll. An `Err` or a panic does not undo
    /// the writes of earlier polls; the alarm is retried according to [`ClassOptions::alarm_retry`]. An alarm that the
    /// handler sets replaces the one being handled, including its retries.
    fn alarm(&self, info: AlarmInfo) -> impl Future<Output = Result<()>> {
        let which = info
            .name
            .map_or_else(String::new, |name| format!(" `{name}`"));
        std::future::ready(Err(Error::with_kind(
            ErrorKind::NotFound,
            format!(
                "this object's alarm{which} fired, but its class has no `alarm` handler, and no component handles it"
            ),
        )))
    }

    /// Called once on each new [timeline](Ctx::timeline): after a restore, and in a fork. It runs before any other
    /// event of the object, and its writes and the record that it ran are one commit. After a restore the object starts
    /// for it without waiting for an event; a fork is dormant and waits for its first event.
    ///
    /// Components have been told before. An error resets the object, and the next event tries again.
    fn new_timeline(&self, timeline: &Timeline) -> Result<()> {
        let _ = timeline;
        Ok(())
    }

    /// Called when the object was [dormant](Ctx::is_dormant) and is activated, in the transaction that activates it.
    ///
    /// Its alarms have been removed if `how` is [`Activation::Fresh`], and its components have been told. An error
    /// resets the object, which stays dormant.
    fn activated(&self, how: Activation) -> Result<()> {
        let _ = how;
        Ok(())
    }

    /// Called before the object leaves memory: when it has been idle for long enough, when memory is short, and when the
    /// program stops. It is one transaction. An object that then gets an event stays in memory, and is told again later.
    ///
    /// It is for what may be lost but need not be, such as the positions of a game or the counts of a limiter. It is *not*
    /// called if the process is killed, and not before a [reset](crate::ErrorKind::Reset): write at once what must not be lost.
    ///
    /// What it writes is durable before the object's memory is free. While memory is short, calls of other objects may be refused
    /// as [overloaded](crate::ErrorKind::Overloaded) for that long.
    ///
    /// It cannot [spawn](Ctx::spawn). An error undoes its writes and is logged; the object leaves memory regardless. When the
    /// program stops, handlers may be suspended at an `await`, and objects that have not been told after
    /// [`LEAVING_LIMIT`](crate::limits::LEAVING_LIMIT) are not told.
    fn leaving(&self) -> Result<()> {
        Ok(())
    }

    /// Handles a message of a WebSocket that the object has [accepted](Ctx::accept_websocket). Messages of one socket
    /// start in order; a message may start while another one waits at an `await`.
    ///
    /// An error is logged; the socket stays open.
    ///
    /// A message that is waiting when the object is reset goes to the next incarnation. If none can be created within
    /// `websocket.delivery_patience`, its socket is closed with 1011. If the object is reset while it handles the
    /// message, the message is not redelivered, because it may have taken effect in part: the socket is closed with
    /// 1011, so that its client can reconnect and resend what was not answered. Messages that follow a lost one are not
    /// handled.
    fn websocket_message(
        &self,
        ws: WebSocket,
        message: Message,
    ) -> impl Future<Output = Result<()>> {
        let _ = (ws, message);
        std::future::ready(Err(Error::with_kind(
            ErrorKind::NotFound,
            "this object does not take WebSocket messages: its class has no `websocket_message`",
        )))
    }

    /// Called when a WebSocket has ended, once for each. `websockets` no longer lists it, and it need not be
    /// closed: the gateway has already answered the peer's close.
    ///
    /// If the object cannot be created, or is reset before this begins, it is retried for
    /// `websocket.delivery_patience`. A reset during the call ends it. State stored for a socket should therefore not
    /// depend on this call alone: a constructor can compare it with `websockets`, which is also empty after a
    /// restart of the process.
    fn websocket_close(&self, ws: WebSocket, close: Close) -> impl Future<Output = Result<()>> {
        let _ = (ws, close);
        std::future::ready(Ok(()))
    }

    /// Called when a WebSocket has failed, because its peer violated the protocol or sent too much.
    /// [`websocket_close`](Self::websocket_close) follows with code 1006.
    fn websocket_error(&self, ws: WebSocket, error: Error) -> impl Future<Output = Result<()>> {
        let _ = (ws, error);
        std::future::ready(Ok(()))
    }
}

/// What `#[durable_object]` adds to a [`DurableObject`]: its name, its stub and its RPC methods.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not declared as a durable object",
    note = "put `#[durable_object]` on the definition of `{Self}`"
)]
pub trait ObjectClass: DurableObject {
    /// The name of the type; also the namespace's unique key unless [`ClassOptions::unique_key`] sets one.
    const NAME: &'static str;

    /// The generated stub, to which [`Stub`](crate::Stub) dereferences.
    type Remote: Remote;

    /// Runs the RPC method with this name.
    #[doc(hidden)]
    fn dispatch(
        this: Rc<Self>,
        storage: &Storage,
        method: Cow<'static, str>,
        args: Args,
    ) -> LocalFuture<Result<Vec<u8>>>;
}

/// A generated stub type.
pub trait Remote: Clone + Send + Sync + 'static {
    /// Wraps an untyped stub.
    #[doc(hidden)]
    fn wrap(stub: AnyStub) -> Self;

    /// The untyped stub inside.
    #[doc(hidden)]
    fn stub(&self) -> &AnyStub;
}

/// Runs a handler that is not `async`: in one transaction, which is rolled back if it fails. `#[durable_object]` generates
/// the calls.
///
/// # Errors
/// That of the handler, or of the commit; [`ErrorKind::Input`] outside an object.
#[doc(hidden)]
pub async fn handler<R>(handler: impl FnOnce() -> Result<R>) -> Result<R> {
    let Some(object) = context::current() else {
        return Err(Error::with_kind(
            ErrorKind::Input,
            "a handler that is a transaction runs only inside its object: send the object an event through its stub",
        ));
    };
    Storage::new(object).transaction(handler)
}

/// Adapts a Rust class to [`Class`].
pub struct Native<T>(PhantomData<fn() -> T>);

impl<T> std::fmt::Debug for Native<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Native").finish_non_exhaustive()
    }
}

impl<T> Native<T> {
    /// The class of `T`.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Native<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ObjectClass> Class for Native<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn instantiate(&self, ctx: Ctx, env: Env) -> Result<Box<dyn Instance>> {
        let storage = ctx.storage().clone();
        let object = Rc::new(T::new(ctx, env)?);
        Ok(Box::new(NativeInstance { object, storage }))
    }
}

struct NativeInstance<T> {
    object: Rc<T>,
    storage: Storage,
}

impl<T: ObjectClass> Instance for NativeInstance<T> {
    fn deliver(&self, event: Event) -> LocalFuture<Result<Reply>> {
        let object = Rc::clone(&self.object);
        match event {
            Event::Fetch(request) => {
                Box::pin(async move { object.fetch(*request).await.map(Reply::Fetch) })
            }
            Event::Rpc {
                method,
                args,
                encoding,
                ..
            } => {
                let args = Args {
                    bytes: args,
                    encoding,
                };
                let result = T::dispatch(object, &self.storage, method, args);
                Box::pin(async move { result.await.map(Reply::Rpc) })
            }
            // The runtime does not pass these to classes.
            Event::Operation { .. } => Box::pin(std::future::ready(Err(Error::with_kind(
                ErrorKind::NotFound,
                "operations are for components",
            )))),
            Event::Create => Box::pin(std::future::ready(Ok(Reply::Done))),
            Event::Alarm(info) => {
                Box::pin(async move { object.alarm(info).await.map(|()| Reply::Done) })
            }
            Event::Timeline(timeline) => {
                Box::pin(async move { object.new_timeline(&timeline).map(|()| Reply::Done) })
            }
            Event::Activation(how) => {
                Box::pin(async move { object.activated(how).map(|()| Reply::Done) })
            }
            Event::Leaving => Box::pin(async move { object.leaving().map(|()| Reply::Done) }),
            Event::Visit(visit) => Box::pin(async move { visit.run(&*object).await }),
            Event::WebSocketMessage { socket, message } => Box::pin(async move {
                object.websocket_message(socket, message).await?;
                Ok(Reply::Done)
            }),
            Event::WebSocketClose { socket, close } => Box::pin(async move {
                object.websocket_close(socket, close).await?;
                Ok(Reply::Done)
            }),
            Event::WebSocketError { socket, error } => Box::pin(async move {
                object.websocket_error(socket, error).await?;
                Ok(Reply::Done)
            }),
        }
    }
}

/// How objects of a class are run.
#[derive(Clone, Debug, Setters)]
#[non_exhaustive]
pub struct ClassOptions {
    /// The name under which callers find the class, in [`Env::namespace`] and in URLs such as `/rpc/NAME/…`; the class name if
    /// `None`. It has letters, digits, `_` and `-`.
    #[setters(into)]
    pub binding: Option<String>,
    /// The key that ids are derived from; the class name if `None`. Set it and `binding` to the old name before you rename the
    /// class, because objects and callers find it by them. Two bindings must not share one.
    #[setters(into)]
    pub unique_key: Option<String>,
    /// An object with nothing running or waiting is evicted after this time.
    pub idle_timeout: Duration,
    /// An object that was activated by its alarm, and has not been called since, is evicted after this time if it is
    /// shorter. Default 1 s.
    pub alarm_idle_timeout: Duration,
    /// A handler that has not finished after this time is stopped at its current `await`, and its object is reset. Code that
    /// does not reach an `await` cannot be stopped.
    pub event_timeout: Duration,
    /// Background work that has not ended after this time is dropped; the object continues to run.
    pub background_timeout: Duration,
    /// Events that may wait at one object's closed gate; at least 1.
    pub max_queued: usize,
    /// Handlers of one object that may be suspended at an `await` at the same time; at least 1.
    pub max_running: usize,
    /// How often and when a failed alarm is tried again.
    pub alarm_retry: AlarmRetry,
}

impl Default for ClassOptions {
    fn default() -> Self {
        Self {
            binding: None,
            unique_key: None,
            idle_timeout: limits::IDLE_TIMEOUT,
            alarm_idle_timeout: limits::ALARM_IDLE_TIMEOUT,
            event_timeout: limits::EVENT_TIMEOUT,
            background_timeout: limits::BACKGROUND_TIMEOUT,
            max_queued: limits::MAX_QUEUED_PER_OBJECT,
            max_running: limits::MAX_RUNNING_PER_OBJECT,
            alarm_retry: AlarmRetry::default(),
        }
    }
}

impl ClassOptions {
    /// The default options with this unique key.
    pub fn with_unique_key(unique_key: impl Into<String>) -> Self {
        Self {
            unique_key: Some(unique_key.into()),
            ..Self::default()
        }
    }
}
