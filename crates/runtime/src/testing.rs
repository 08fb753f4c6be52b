//! What tests of programs need beyond [`Node::settle`]: code that runs inside a live object, and an object that leaves memory when
//! the test says so.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    AnyStub, Ctx, Error, ErrorKind, Event, Node, ObjectClass, Result, Stub, context,
    envelope::{Eviction, Message},
    limits::SETTLE_PATIENCE,
    visit::Visit,
};

/// How often an object that cannot leave memory yet is asked again.
const PACE: Duration = Duration::from_millis(1);

impl Node {
    /// Runs a function inside a live object, for tests: it sees the object's fields and its context. It is an event like any other:
    /// it waits for its turn, starts the object if it is not in memory, and its result leaves when all that the object has
    /// written is durable. It is one transaction, which an `Err` or a panic undoes.
    ///
    /// ```
    /// # use abide_runtime as abide;
    /// # async fn example<Cart: abide::ObjectClass>(node: &abide::Node, cart: abide::Stub<Cart>) -> abide::Result<()> {
    /// let reminded = node.run_in(&cart, |_cart, ctx| ctx.storage().get::<bool>("reminded")).await?;
    /// assert_eq!(reminded, Some(true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of the function, and those of a call.
    pub async fn run_in<T: ObjectClass, R: Send + 'static>(
        &self,
        object: &Stub<T>,
        run: impl FnOnce(&T, &Ctx) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let result = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&result);
        let env = self.env().for_objects();
        let visit = Visit(Box::new(move |instance| {
            let (Some(instance), Some(object)) = (instance.downcast_ref::<T>(), context::current())
            else {
                return Err(Error::with_kind(
                    ErrorKind::Decode,
                    "the object is of another class than its stub",
                ));
            };
            let result = run(instance, &Ctx::new(object, env))?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            Ok(())
        }));
        object.untyped().visit(Event::Visit(visit)).await?;
        let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.ok_or_else(|| Error::with_kind(ErrorKind::Reset, "the object was reset"))
    }

    /// Evicts an object from memory, for tests: it is told that it [leaves](crate::DurableObject::leaving), what it wrote becomes
    /// durable, and its next event constructs it anew. Waits until the object is idle. Does nothing to an object that is not in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] with what keeps it in memory, if it is not idle within [`SETTLE_PATIENCE`] of the machine's time.
    #[allow(
        clippy::disallowed_methods,
        reason = "the disk, and whatever the object waits for, take the machine's time"
    )]
    pub async fn evict(&self, object: &AnyStub) -> Result<()> {
        let deadline = Instant::now() + SETTLE_PATIENCE;
        let id = object.checked_id()?;
        loop {
            self.must_run()?;
            let (tell, told) = oneshot::channel();
            object.worker().send(Message::Eviction(Eviction {
                binding: object.binding_index(),
                id,
                tell,
            }))?;
            let Some(why) = told.await.map_err(|_| Error::stopping())? else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(Error::with_kind(
                    ErrorKind::Timeout,
                    format!(
                        "the object does not leave memory within {} s: {why}",
                        SETTLE_PATIENCE.as_secs()
                    ),
                ));
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
