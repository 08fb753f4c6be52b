//! Calls that are made again, where nothing can have happened twice.
//!
//! [`Retry`] repeats a call of an object with growing waits, for a bounded time:
//!
//! - [`Retry::call`] only if the call **never ran** ([`Error::retryable`]): the object was overloaded, its node was
//!   stopping, or it was reset before the call began. A call that may have run is not repeated, and its error is returned.
//! - [`Retry::call_once`] also if it **may have run**, with an idempotency key: the object remembers the result under the
//!   key, so a repetition applies nothing.
//!
//! Waits double and are random between nothing and their length, so that callers that failed together do not come back
//! together. An error that says how long to wait ([`Error::retry_after`]) is waited for. What the object's method itself
//! returns is its answer, also if it is an `Err`, and is never repeated.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::retry::Retry;
//!
//! # #[durable_object]
//! # pub struct Account { ctx: Ctx }
//! # impl DurableObject for Account {
//! #     fn new(ctx: Ctx, _env: Env) -> Result<Self> { Ok(Self { ctx }) }
//! # }
//! # #[rpc]
//! # impl Account {
//! #     pub async fn balance(&self) -> Result<i64> { Ok(0) }
//! #     pub async fn deposit(&self, amount: i64) -> Result<i64> { Ok(amount) }
//! # }
//! async fn pay(env: &Env, order: &str) -> Result<i64> {
//!     let ada: Stub<Account> = env.object::<Account>().get_by_name("ada");
//!     let retry = Retry::new(env);
//!     println!("{}", retry.call(|| ada.balance()).await?);
//!     // Whatever happens to the answer, the deposit is made once.
//!     retry.call_once(&ada, order, |ada| ada.deposit(100)).await
//! }
//! # fn main() {}
//! ```

use std::time::Duration;

use abide_macros::Setters;

use abide::{Call, Env, Error, ErrorKind, ObjectClass, Result, Stub};

use super::limits::{MAX_CALL_ATTEMPTS, MAX_CALL_PATIENCE};

/// How a call is retried.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct RetryOptions {
    /// Attempts in all. Default 8.
    pub attempts: u32,
    /// The longest wait before the second attempt; it doubles with each attempt. Default 50 ms.
    pub base: Duration,
    /// The longest wait between two attempts. Default 5 s.
    pub max_wait: Duration,
    /// No attempt begins after this time. Default 30 s.
    pub patience: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            attempts: 8,
            base: Duration::from_millis(50),
            max_wait: Duration::from_secs(5),
            patience: Duration::from_secs(30),
        }
    }
}

impl RetryOptions {
    fn check(&self) -> Result<()> {
        let wrong = if !(1..=MAX_CALL_ATTEMPTS).contains(&self.attempts) {
            format!("a call has 1 to {MAX_CALL_ATTEMPTS} attempts")
        } else if self.patience > MAX_CALL_PATIENCE {
            let minutes = MAX_CALL_PATIENCE.as_secs() / 60;
            format!(
                "a call is retried for at most {minutes} min: work that must be done belongs in a queue or an outbox"
            )
        } else if self.base > self.max_wait {
            "the first wait is longer than the longest".to_owned()
        } else if self.max_wait > MAX_CALL_PATIENCE {
            let minutes = MAX_CALL_PATIENCE.as_secs() / 60;
            format!(
                "two attempts are at most {minutes} min apart: no caller waits longer for a call"
            )
        } else {
            return Ok(());
        };
        Err(Error::with_kind(ErrorKind::Input, wrong))
    }
}

/// Repeats calls. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Retry {
    env: Env,
    options: RetryOptions,
}

impl Retry {
    /// With the default options.
    pub fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            options: RetryOptions::default(),
        }
    }

    /// The same with other options.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if one is invalid.
    pub fn with(env: &Env, options: RetryOptions) -> Result<Self> {
        options.check()?;
        Ok(Self {
            env: env.clone(),
            options,
        })
    }

    /// Makes a call, and repeats it if it never ran. Returns the answer, or the error of the last attempt.
    pub async fn call<R, E: From<Error>>(&self, call: impl Fn() -> Call<R, E>) -> Result<R, E> {
        self.repeat(call, never_ran).await
    }

    /// Makes a call with an idempotency key, and repeats it also if it may have run: it is applied once. The key
    /// identifies this call, such as the id of an order; another call needs another key. It is remembered for 24
    /// hours.
    ///
    /// A method that writes, awaits and writes again is run again if its object was reset in between; see the guide
    /// on calls.
    pub async fn call_once<T: ObjectClass, R, E: From<Error>>(
        &self,
        stub: &Stub<T>,
        key: &str,
        call: impl Fn(&Stub<T>) -> Call<R, E>,
    ) -> Result<R, E> {
        let stub = stub.with_idempotency_key(key);
        self.repeat(|| call(&stub), may_succeed_later).await
    }

    async fn repeat<R, E: From<Error>>(
        &self,
        call: impl Fn() -> Call<R, E>,
        is_to_be_repeated: fn(&Error) -> bool,
    ) -> Result<R, E> {
        let clock = self.env.clock();
        let deadline = clock.now() + self.options.patience;
        let mut longest = self.options.base;
        for attempt in 1.. {
            let error = match call().answer().await {
                Ok(returned) => return returned,
                Err(error) => error,
            };
            if attempt >= self.options.attempts || !is_to_be_repeated(&error) {
                return Err(error.into());
            }
            let wait = self
                .below(longest)
                .max(error.retry_after().unwrap_or_default());
            let next = clock.now().saturating_add(wait);
            if next > deadline {
                return Err(error.into());
            }
            clock.sleep_until(next).await;
            longest = (longest * 2).min(self.options.max_wait);
        }
        unreachable!("an attempt is the last")
    }

    /// A random time up to another.
    fn below(&self, longest: Duration) -> Duration {
        let mut bytes = [0; 4];
        self.env.fill_random(&mut bytes);
        let share = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
        longest.mul_f64(share)
    }
}

/// The call did not run: repeating it cannot apply it twice.
fn never_ran(error: &Error) -> bool {
    error.retryable() && !error.remote()
}

/// With an idempotency key: a transport error, so another attempt can have another result.
fn may_succeed_later(error: &Error) -> bool {
    if error.remote() {
        return false;
    }
    error.retryable()
        || error.object_reset()
        || matches!(
            error.kind(),
            ErrorKind::Reset
                | ErrorKind::Timeout
                | ErrorKind::Unavailable
                | ErrorKind::TooManyCreated
        )
}
