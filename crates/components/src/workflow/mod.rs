//! Durable execution: a function that runs to completion, even across crashes.
//!
//! A [`Workflow`] requests steps, sleeps, events and other workflows from its [`Context`]. Each instance is an object:
//! the result of a step is stored once, and when the object is activated again the function runs from its beginning and
//! receives the stored results, until it is where it was.
//!
//! - A step's function is called at least once, with the same idempotency key on every attempt; its result is stored
//!   once.
//! - Every started instance finishes, or reports why it cannot continue.
//! - An instance that sleeps, or waits for an event, needs no memory.
//!
//! ```
//! use abide::prelude::*;
//! use abide::workflow::{self, Context, Failure, WorkflowRegistry, RetryPolicy, Workflow, WorkflowError, Workflows};
//! use std::time::Duration;
//!
//! struct Signup;
//!
//! impl Workflow for Signup {
//!     const NAME: &'static str = "signup";
//!     type Input = String;
//!     type Output = bool;
//!
//!     async fn run(&self, ctx: Context, address: String) -> Result<bool, Failure> {
//!         ctx.step("mail", RetryPolicy::default(), async |attempt| {
//!             let request = abide::http::Request::post("https://example.com/mails")
//!                 .header("idempotency-key", attempt.idempotency_key())
//!                 .body(Body::from(address.clone()))?;
//!             match attempt.fetch(request).await?.status() {
//!                 status if status.is_success() => Ok(()),
//!                 status => Err(Failure::temporary(status.to_string())),
//!             }
//!         })
//!         .await?;
//!         match ctx.wait_for_event("confirmed", Duration::from_hours(72)).await {
//!             Err(late) if late.is_timeout() => Ok(false),
//!             confirmed => confirmed,
//!         }
//!     }
//! }
//!
//! async fn sign_up(env: &Env, address: &str) -> Result<(), WorkflowError> {
//!     let signups = Workflows::<Signup>::new(env);
//!     signups.start(address, &address.to_owned()).await?;
//!     signups.send_event(address, "confirmed", &true).await
//! }
//!
//! # fn main() {
//! let host = workflow::install(abide::Host::builder("data"), WorkflowRegistry::new().with(Signup), workflow::WorkflowOptions::default());
//! # }
//! ```

mod attempt;
mod context;
mod directory;
mod error;
mod failure;
mod handle;
mod inner;
mod json;
pub(crate) mod limits;
mod metrics;
mod notice;
mod notices;
mod object;
#[cfg(feature = "server")]
mod operations;
mod options;
mod record;
mod registry;
mod relisting;
mod replay;
mod restart;
mod retry;
mod rows;
mod run;
mod schema;
mod setback;
mod signal;
mod task;
mod timelines;
#[allow(
    clippy::module_inception,
    reason = "the noun of the module is its trait"
)]
mod workflow;

use std::time::Duration;

use abide::{AlarmRetry, ClassOptions, Registrar};

pub use abide_component::{Failure, FailureKind};
pub use attempt::Attempt;
pub use context::Context;
pub use directory::ListedVersion;
pub use error::WorkflowError;
pub use handle::{EventKey, Workflows};
pub use notice::Parent;
pub use object::{
    Order, RawResult, Started, WorkflowDirectory, WorkflowDirectoryStub, WorkflowInstance,
    WorkflowInstanceStub,
};
pub use options::WorkflowOptions;
pub use record::{
    Ended, Filter, InstanceRecord, ListBy, Listed, Page, Status, StepKind, StepName, StepRecord,
    StepState,
};
pub use registry::WorkflowRegistry;
pub use retry::RetryPolicy;
pub use workflow::Workflow;

/// Registers the classes, with the workflows of the program and their options.
pub fn install<R: Registrar>(
    registrar: R,
    registry: WorkflowRegistry,
    options: WorkflowOptions,
) -> R {
    registrar
        .object_with::<WorkflowInstance>(class_options())
        .object::<WorkflowDirectory>()
        .with(registry)
        .with(options)
}

/// The options of the class of instances: its alarm is retried until it succeeds, with waits
/// of at most a minute.
pub fn class_options() -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(Duration::from_mins(1)))
}
