//! Rate limiters: a number of requests per time, for each user, address or token.
//!
//! A [`RateLimiter`] is an object named after its user or address. The caller passes the [`Limit`] with each request, so a
//! limit is a constant of the program and needs no set-up. One limiter counts several keys, such as `login` and
//! `comment`, each apart. A key has one limit: two of them, such as one for a minute and one for a day, need a key each,
//! because what a shorter window or a limit of the other kind does not count is forgotten.
//!
//! - A **sliding window** never admits more than its limit in any window, wherever it begins; after a refusal it takes at
//!   most a 256th of the window longer than it must to admit again.
//! - A **token bucket** holds a burst, and one token comes back each interval.
//!
//! Counts are in memory and are saved a second after they change ([`LimiterOptions::save_after`]). An object that leaves memory
//! forgets nothing. A crash forgets what was admitted in that last second, and nothing else. Once nothing counts any
//! more, the object deletes all that it holds.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::limiter::{self, Limit, LimiterError, RateLimiter, Verdict};
//! use std::time::Duration;
//!
//! const COMMENTS: Limit = Limit::window(20, Duration::from_secs(3600));
//!
//! async fn may_comment(env: &Env, address: &str) -> Result<bool, LimiterError> {
//!     let limiter: Stub<RateLimiter> = env.object::<RateLimiter>().get_by_name(address);
//!     match limiter.check("comment".to_owned(), COMMENTS).await? {
//!         Verdict::Admitted { .. } => Ok(true),
//!         Verdict::Refused { retry_after } => {
//!             println!("again in {retry_after:?}");
//!             Ok(false)
//!         }
//!     }
//! }
//!
//! # fn main() {
//! let host = limiter::install(abide::Host::builder("data"), limiter::LimiterOptions::default());
//! # }
//! ```

mod error;
mod limit;
mod object;
mod options;
mod usage;

use abide::{ClassOptions, Registrar};

pub use error::LimiterError;
pub use limit::{Limit, Verdict};
pub use object::{RateLimiter, RateLimiterStub};
pub use options::LimiterOptions;

/// Registers the class.
///
/// # Panics
/// If an option is invalid.
pub fn install<R: Registrar>(registrar: R, options: LimiterOptions) -> R {
    options.check();
    registrar
        .object_with::<RateLimiter>(class_options())
        .with(options)
}

/// How to run the class.
pub fn class_options() -> ClassOptions {
    ClassOptions::default()
}
