//! What an object's code is given of itself.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{Env, Error, ErrorKind, ObjectId, Result, Storage, object::Object};

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
            .doom(Error::with_kind(ErrorKind::Reset, reason.into()));
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
