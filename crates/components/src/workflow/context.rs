//! The interface of a workflow's function.

use std::{
    any::Any,
    future::{Future, pending},
    ops::RangeInclusive,
    panic::AssertUnwindSafe,
    rc::Rc,
    time::Duration,
};

use abide::clock::own_waits;
use abide_component::texts::Panicked;
use futures_util::{FutureExt, future::join_all};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Attempt, Failure, RetryPolicy, Workflow,
    json::to_json,
    limits,
    replay::{Asked, Launch, Next, Replay},
};

/// The source of steps, sleeps, events and children for a workflow's function. Clones refer to the same context.
///
/// Names identify requests across activations of an instance. Repeated uses of a name are counted, as in a loop: the
/// second `poll` is another step than the first.
#[derive(Clone)]
pub struct Context {
    replay: Rc<Replay>,
    shielded: bool,
}

impl Context {
    pub(super) fn new(replay: &Rc<Replay>) -> Self {
        Self {
            replay: Rc::clone(replay),
            shielded: false,
        }
    }

    /// The instance's id.
    pub fn id(&self) -> &str {
        self.replay.id()
    }

    /// The time of the newest result that the workflow has received, in milliseconds since 1970: the same in every
    /// replay.
    pub fn now(&self) -> i64 {
        self.replay.time()
    }

    /// How many steps, sleeps, waits and children the workflow has requested since its history began: the same in every
    /// replay. An instance has at most [`limits::MAX_STEPS`]; one that runs forever must [continue as
    /// new](Self::continue_as_new) before that.
    pub fn history_len(&self) -> usize {
        self.replay.asked()
    }

    /// The version of a part of the function that the instance uses: for a function that changes while instances run.
    /// The range contains the versions that the function knows; 0 is the one before the change.
    ///
    /// When an instance first reaches the change, the version is decided and stored: the newest version, or 0 if the
    /// instance passed this point before the change. From then on it stays the same, wherever and however often it is
    /// requested.
    ///
    /// ```
    /// # use abide::workflow::{Context, Failure, RetryPolicy};
    /// # async fn run(ctx: Context) -> Result<(), Failure> {
    /// match ctx.version("by drone", 0..=1).await? {
    ///     0 => ctx.step("ship by van", RetryPolicy::default(), async |_| Ok(())).await,
    ///     _ => ctx.step("ship by drone", RetryPolicy::default(), async |_| Ok(())).await,
    /// }
    /// # }
    /// ```
    ///
    /// An instance whose version the function does not know is stuck, until it does.
    ///
    /// # Errors
    /// A permanent failure if the name of the change is empty or too long, or the range is empty.
    pub async fn version(&self, change: &str, known: RangeInclusive<u32>) -> Result<u32, Failure> {
        self.replay.version(change, known).await
    }

    /// True if the instance uses the changed function, false if it uses the previous one: a [`version`](Self::version)
    /// with two values.
    ///
    /// # Errors
    /// As [`version`](Self::version).
    pub async fn patched(&self, change: &str) -> Result<bool, Failure> {
        Ok(self.version(change, 0..=1).await? > 0)
    }

    /// Ends this history, and continues the instance with an empty one, as if it was started with this input: for
    /// instances that run forever. It keeps its id, its parent, and unconsumed events. Pending requests are abandoned,
    /// as at completion. Call it last: `return ctx.continue_as_new::<Self>(&input).await`.
    ///
    /// # Errors
    /// A permanent failure if the input cannot be stored; a cancellation, if the workflow was canceled. Otherwise it
    /// does not return.
    pub async fn continue_as_new<W: Workflow>(
        &self,
        input: &W::Input,
    ) -> Result<W::Output, Failure> {
        self.replay.succeed(to_json("the input", input)?)?;
        pending().await
    }

    /// Calls a function until it succeeds, fails permanently, or exhausts the policy's attempts. The result is stored
    /// once; from then on the step returns it without calling the function.
    ///
    /// The function is called at least once, and again if the process crashes before its result is on disk: it should
    /// send the [attempt's idempotency key](Attempt::idempotency_key). A panic is a failed attempt.
    ///
    /// # Errors
    /// The function's failure, if it is permanent or that of the last attempt; a cancellation.
    pub async fn step<T: Serialize + DeserializeOwned>(
        &self,
        name: impl Into<String>,
        policy: RetryPolicy,
        function: impl AsyncFn(Attempt) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let limit = policy.timeout.min(limits::MAX_TIMEOUT);
        let step = self.ask(name, Launch::Step(policy)).await?;
        loop {
            match step.next().await {
                Next::Result(result) => return decode(&step, &result?).await,
                Next::Attempt(attempt) => {
                    let _running = step.running();
                    let clock = attempt.clock();
                    let late = abide::clock::time_limit(&**clock, limit);
                    let called = AssertUnwindSafe(async { function(attempt).await });
                    let called = own_waits(called.catch_unwind());
                    let result = tokio::select! {
                        biased;
                        result = called => result.unwrap_or_else(|panic| Err(panicked(&*panic))),
                        () = late => Err(Failure::temporary(format!(
                            "no response within {} s",
                            limit.as_secs_f64()
                        ))),
                    };
                    step.landed(result.and_then(|value| to_json("the step's result", &value)));
                }
            }
        }
    }

    /// Sleeps for a duration. The object may leave memory meanwhile. A wall clock that is set back does not lengthen
    /// this.
    ///
    /// # Errors
    /// A cancellation.
    pub async fn sleep(&self, name: impl Into<String>, time: Duration) -> Result<(), Failure> {
        let sleep = self.ask(name, Launch::Sleep(time)).await?;
        sleep.result().await.map(drop)
    }

    /// Sleeps until a time of the wall clock, in milliseconds since 1970, even if the clock is set meanwhile.
    ///
    /// # Errors
    /// A cancellation.
    pub async fn sleep_until(&self, name: impl Into<String>, time: i64) -> Result<(), Failure> {
        let sleep = self.ask(name, Launch::Until(time)).await?;
        sleep.result().await.map(drop)
    }

    /// Waits for an event of this name, which [`send_event`](super::Workflows::send_event) sends. Events are consumed
    /// in order of arrival; one that arrived before the workflow waited for it is consumed at once.
    ///
    /// # Errors
    /// A timeout, for which [`Failure::is_timeout`] is true; a permanent failure if the event does not deserialize to
    /// `T`; a cancellation.
    pub async fn wait_for_event<T: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        timeout: Duration,
    ) -> Result<T, Failure> {
        let name = name.into();
        let event = self.ask(name.clone(), Launch::Event(timeout)).await?;
        let payload = event.result().await?;
        serde_json::from_str(&payload).map_err(|error| {
            Failure::permanent(format!("event `{name}` does not match its type: {error}"))
        })
    }

    /// Starts an instance of another workflow and waits for it to finish. The child's id is this instance's, a slash,
    /// and the name, in which `%`, `/`, `#` and `~` are written as `%25`, `%2F`, `%23` and `%7E`; the second child of a
    /// name ends with `#2`. A child that is still running when this instance ends is canceled.
    ///
    /// # Errors
    /// The child's failure, or that it could not be started; a cancellation.
    pub async fn child<W: Workflow>(
        &self,
        name: impl Into<String>,
        input: W::Input,
    ) -> Result<W::Output, Failure> {
        let input = to_json("the child's input", &input)?;
        let launch = Launch::Child {
            workflow: W::NAME,
            input,
        };
        let child = self.ask(name, launch).await?;
        let output = child.result().await?;
        decode(&child, &output).await
    }

    /// Waits for several futures concurrently, such as steps: up to 64 attempts run at once. Any other combinator
    /// works, too, if it polls its futures in a fixed order. `tokio::join!` starts with a different future at each
    /// poll, unless it is `biased`: that matters only if one result wakes two of them, and both then request the same
    /// name.
    pub async fn parallel<F: Future>(
        &self,
        futures: impl IntoIterator<Item = F>,
    ) -> Vec<F::Output> {
        join_all(futures).await
    }

    /// The same context for work that must be done even though the instance was canceled, such as a refund: requests to
    /// it do not fail with a cancellation.
    #[must_use]
    pub fn shielded(&self) -> Self {
        Self {
            shielded: true,
            ..self.clone()
        }
    }

    async fn ask(&self, name: impl Into<String>, launch: Launch) -> Result<Asked, Failure> {
        self.replay.ask(&name.into(), self.shielded, launch).await
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// A stored result, deserialized.
async fn decode<T: DeserializeOwned>(step: &Asked, json: &str) -> Result<T, Failure> {
    match serde_json::from_str(json) {
        Ok(value) => Ok(value),
        Err(error) => step.misfit(&error).await,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let Panicked { text, shown } = Panicked::new("the step", panic);
    tracing::error!(%text, error = shown, "a step of a workflow panicked; it is retried");
    Failure::temporary(shown)
}
