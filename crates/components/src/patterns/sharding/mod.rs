//! Sharded namespaces: many objects that do the work of one.
//!
//! One object is one thread. What it cannot do alone is divided by a key, such as the id of a user: a [`Sharded`] handle
//! finds the shard of each key, an object of your class whose name is that of the sharded namespace, a `/` and a number.
//!
//! What concerns all shards, such as a total, is added up by a [`Coordinator`]: each shard keeps its [`Figures`] in the
//! transaction that changes them, and reports them a second later ([`ShardingOptions::report_after`]). Asking the coordinator is
//! one call; asking all shards ([`Sharded::each`]) is exact, and as many calls as there are shards.
//!
//! - Each key always has the same shard. The number of shards is fixed when [`Sharded::declare`] is called first; another
//!   number is refused, because keys would lose what their shards hold.
//! - Totals are behind by what has not been reported. Once nothing changes, they are exact: a report that is lost or
//!   repeated counts once.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::sharding::{self, Figures, ShardingOptions, Sharded, ShardingError};
//!
//! #[durable_object]
//! struct Likes {
//!     ctx: Ctx,
//!     figures: Figures,
//! }
//!
//! impl DurableObject for Likes {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let figures = Figures::open(&ctx, ShardingOptions::default())?;
//!         Ok(Self { ctx, figures })
//!     }
//! }
//!
//! #[rpc]
//! impl Likes {
//!     pub async fn like(&self, post: String) -> Result<i64, ShardingError> {
//!         let likes = self.ctx.storage().get(&post)?.unwrap_or(0) + 1;
//!         self.ctx.storage().put(&post, &likes)?;
//!         self.figures.add("likes", 1)?;
//!         Ok(likes)
//!     }
//! }
//!
//! async fn like(env: &Env, post: &str) -> Result<i64, ShardingError> {
//!     let likes = Sharded::<Likes>::new(env, "likes", 100)?;
//!     likes.of(post).like(post.to_owned()).await
//! }
//!
//! async fn likes_in_all(env: &Env) -> Result<i64, ShardingError> {
//!     let likes = Sharded::<Likes>::new(env, "likes", 100)?;
//!     Ok(likes.totals().await?.get("likes"))
//! }
//!
//! # fn main() {
//! let host = sharding::install(abide::Host::builder("data").object::<Likes>());
//! # }
//! ```

mod coordinator;
mod error;
mod figures;
mod hash;
mod options;
mod sharded;

use std::time::Duration;

use abide::{AlarmRetry, ClassOptions, Registrar};

pub use coordinator::{Coordinator, CoordinatorStub, Totals};
pub use error::ShardingError;
pub use figures::Figures;
pub use options::ShardingOptions;
pub use sharded::Sharded;

/// Registers the coordinators' class. The class of the shards is yours, and you register it yourself.
pub fn install<R: Registrar>(registrar: R) -> R {
    registrar.object_with::<Coordinator>(class_options())
}

/// How to run the coordinators' class.
pub fn class_options() -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(Duration::from_mins(1)))
}
