//! Durable queues: many send, few consume, in batches, at the consumer's pace.
//!
//! A queue consists of shards, objects of the built-in class [`QueueShard`]. A [`Queue`] is the handle: it sends a
//! [`QueueMessage`] to a shard, and the shard passes batches of messages to the queue's [`Consumer`] until each is
//! acknowledged, or is given up and becomes a dead letter, which waits for an operator.
//!
//! - A message is on disk when `send` returns, and is consumed at least once. Its id is the same on every attempt.
//! - With a dedup key it is accepted once, however often it is sent.
//! - No message is lost: one that cannot be consumed is kept as a dead letter, with the reason.
//! - A full shard refuses messages, as overload, which slows fast senders down.
//! - Messages of one shard become due in the order in which they were sent. Failed attempts and concurrent batches
//!   change the order in which they are consumed.
//!
//! ```
//! use abide::prelude::*;
//! use abide::queue::{self, Batch, Consumer, QueueMessage, QueueOptions, Queue, QueueError, Queues};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Thumbnail {
//!     picture: String,
//! }
//!
//! struct Painter;
//!
//! impl Consumer for Painter {
//!     type Body = Thumbnail;
//!
//!     async fn consume(&self, batch: &Batch<Thumbnail>) -> Result<()> {
//!         for message in batch.messages() {
//!             if message.body.picture.ends_with(".exe") {
//!                 message.refuse("it is no picture"); // a dead letter
//!             }
//!         }
//!         Ok(()) // acknowledges the others; an error has them tried again
//!     }
//! }
//!
//! async fn upload(env: &Env, picture: String) -> Result<(), QueueError> {
//!     let queue = Queue::new(env, "thumbnails")?;
//!     queue.send(QueueMessage::new(&Thumbnail { picture })?).await?;
//!     Ok(())
//! }
//!
//! # fn main() {
//! let queues = Queues::new().with("thumbnails", QueueOptions::default().shards(4), Painter);
//! let host = queue::install(abide::Host::builder("data"), queues);
//! # }
//! ```

mod consumer;
mod dead;
mod delivery;
mod error;
mod handle;
mod id;
mod inner;
pub(crate) mod limits;
mod message;
mod meta;
mod metrics;
#[cfg(feature = "server")]
mod operations;
mod options;
mod passes;
mod pump;
mod queues;
mod rows;
mod schema;
mod settle;
mod shard;
mod timelines;
#[cfg(feature = "server")]
mod to_http;
mod to_object;

use std::time::Duration;

use abide::{AlarmRetry, ClassOptions, Registrar};

pub use consumer::{Batch, Consumer, Function, Received, function};
pub use delivery::{Dead, Delivery, Exceptions, Retry};
pub use error::QueueError;
pub use handle::Queue;
pub use id::MessageId;
pub use message::{Counts, DeadLetter, QueueMessage, Sent};
pub use options::{DeadLetters, QueueOptions};
pub use queues::Queues;
pub use shard::{QueueShard, QueueShardStub};
#[cfg(feature = "server")]
pub use to_http::ToHttp;
pub use to_object::ToObject;

pub use abide_component::RetryPolicy;

/// Registers the class, with the queues of the program.
pub fn install<R: Registrar>(registrar: R, queues: Queues) -> R {
    registrar
        .object_with::<QueueShard>(class_options())
        .with(queues)
}

/// The class's options: its alarm is retried until it succeeds, with waits of at most a minute.
pub fn class_options() -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(Duration::from_mins(1)))
}
