//! Locks with leases and fencing tokens.
//!
//! A [`Lock`] is an object named after a resource. At most one holder has its lease at a time. A holder that dies keeps
//! it until the lease ends, which the object's alarm sees to; a holder that works longer renews it.
//!
//! A lease alone excludes no other writer: its holder may be suspended, wake after the lease has ended, and write although another
//! has the lock. So each lease has a **fencing token**, which is higher than those of all leases before it, also
//! across crashes and after a restore of the lock. The holder sends it with whatever it does to the resource, and the resource refuses lower numbers than
//! it has seen: a [`Fence`] does that in an object.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::lock::{self, Fence, Lock, LockError, Token};
//! use std::time::Duration;
//!
//! #[durable_object]
//! struct Report {
//!     ctx: Ctx,
//!     fence: Fence,
//! }
//!
//! impl DurableObject for Report {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let fence = Fence::open(&ctx, "report")?;
//!         Ok(Self { ctx, fence })
//!     }
//! }
//!
//! #[rpc]
//! impl Report {
//!     pub async fn write(&self, token: Token, text: String) -> Result<(), LockError> {
//!         self.fence.admit(token)?; // an older holder is refused
//!         Ok(self.ctx.storage().put("text", &text)?)
//!     }
//! }
//!
//! async fn write_report(env: &Env, worker: &str) -> Result<(), LockError> {
//!     let lock: Stub<Lock> = env.object::<Lock>().get_by_name("report");
//!     let lease = lock.acquire(worker.to_owned(), Duration::from_secs(30)).await?;
//!     let report = env.object::<Report>().get_by_name("report");
//!     report.write(lease.token, "all is well".to_owned()).await?;
//!     lock.release(lease.token).await?;
//!     Ok(())
//! }
//!
//! # fn main() {
//! let host = lock::install(abide::Host::builder("data"));
//! # }
//! ```

mod error;
mod fence;
mod lease;
mod object;
mod record;
mod token;

use std::time::Duration;

use abide::{AlarmRetry, ClassOptions, Registrar};

pub use error::LockError;
pub use fence::Fence;
pub use lease::Lease;
pub use object::{Lock, LockStub};
pub use token::Token;

/// Registers the class.
pub fn install<R: Registrar>(registrar: R) -> R {
    registrar.object_with::<Lock>(class_options())
}

/// How to run the class: its alarm is tried until it succeeds, at most a minute apart.
pub fn class_options() -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(Duration::from_mins(1)))
}
