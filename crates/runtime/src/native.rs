//! Classes written in Rust: a class implements [`DurableObject`], `#[durable_object]` adds [`ObjectClass`], and
//! [`Native`] adapts that to the runtime's interface, [`Class`].

use std::{any::Any, borrow::Cow, future::Future, marker::PhantomData, rc::Rc};

use crate::{
    Activation, AlarmInfo, AnyStub, Class, Ctx, Env, Error, ErrorKind, Event, Instance,
    LocalFuture, Reply, Request, Response, Result, Storage, Timeline, context,
    rpc::Args,
    socket::{Close, Message, WebSocket},
    visit::Visit,
};

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
    /// the writes of earlier polls; the alarm is retried according to
    /// [`ClassOptions::alarm_retry`](crate::ClassOptions::alarm_retry). An alarm that the handler sets replaces the one being handled, including its retries.
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
    /// The name of the type; also the namespace's unique key unless
    /// [`ClassOptions::unique_key`](crate::ClassOptions::unique_key) sets one.
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

impl Visit {
    /// Runs the function on the object's instance, in one transaction.
    async fn run(self, object: &dyn Any) -> Result<Reply> {
        handler(|| (self.0)(object)).await.map(|()| Reply::Done)
    }
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
