//! Projections: rows of many objects in one read model that can be queried across them.
//!
//! An object is addressed by its name, and knows only its own state. Data for queries over all objects (a list, a sum,
//! a page) is kept in a [`ReadModel`]: tables in an SQLite file ([`SqliteModel`]) or in `PostgreSQL`
//! ([`PostgresModel`]). An object puts rows into its [`Feed`], in the transaction of the change that they reflect; the
//! feed sends them to a queue, and the queue's consumer writes them, many at a time.
//!
//! - A row and its change are one transaction, and the row reaches the read model whatever fails in between.
//! - A row is written only if it reflects a later change than the stored one: duplicates and late rows do no harm.
//! - After a restore an object sends all its rows again, and its rows from the undone future disappear.
//! - A read model that is down, slow or deleted affects no object: the queue holds rows and retries; when the queue is
//!   full, feeds keep their rows.
//! - The read model lags slightly. For an authoritative answer, ask the object.
//! - It contains nothing that objects do not: it can be deleted and [rebuilt](Projection::rebuild) at any time.
//!
//! ```
//! use std::sync::Arc;
//! use abide::prelude::*;
//! use abide::{
//!     projection::{Feed, Projection, ProjectionError, ReadModel, SqliteModel, Table, Tables, Type},
//!     queue::{self, Queues},
//! };
//! use serde_json::json;
//!
//! #[durable_object]
//! struct Account {
//!     ctx: Ctx,
//!     feed: Feed,
//! }
//!
//! impl DurableObject for Account {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let feed = Feed::open(&ctx)?;
//!         Ok(Self { ctx, feed })
//!     }
//! }
//!
//! #[rpc]
//! impl Account {
//!     pub async fn deposit(&self, amount: i64) -> Result<()> {
//!         let storage = self.ctx.storage();
//!         storage.transaction(|| {
//!             let (seq, balance): (i64, i64) = storage.get("account")?.unwrap_or_default();
//!             storage.put("account", &(seq + 1, balance + amount))?;
//!             let name = self.ctx.name().unwrap_or_default();
//!             self.feed.put("accounts", name, seq + 1, &json!({ "balance": balance + amount }))?;
//!             Ok(())
//!         })
//!     }
//! }
//!
//! # fn main() -> Result<(), ProjectionError> {
//! # let dir = std::env::temp_dir().join(format!("abide-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let file = dir.join("read-model.db");
//! let accounts = Table::new("accounts").column("balance", Type::Integer).index(["balance"]);
//! let model: Arc<dyn ReadModel> = Arc::new(SqliteModel::open(&file, Tables::new([accounts])?)?);
//! let projection = Projection::new("read-model", &*model);
//! let queues = projection.install(Queues::new(), Arc::clone(&model));
//! let host = queue::install(abide::Host::builder("data"), queues)
//!     .with(projection)
//!     .object::<Account>();
//! # drop((host, model));
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok(())
//! # }
//! ```

mod error;
mod feed;
pub(crate) mod limits;
mod metrics;
mod model;
#[cfg(feature = "server")]
mod operations;
#[cfg(feature = "postgres")]
mod postgres;
mod projector;
mod rebuild;
mod row;
mod sql;
mod sqlite;
mod table;
mod worker;

use std::{sync::Arc, time::Duration};

use projector::Projector;

pub use error::ProjectionError;
pub use feed::{Feed, FeedStanding, WaitingRow};
pub use model::{Found, ReadModel, Written};
#[cfg(feature = "postgres")]
pub use postgres::PostgresModel;
pub use rebuild::{Progress, sources};
pub use row::{Begun, Row};
pub use sqlite::SqliteModel;
pub use table::{Table, Tables, Type};

use crate::queue::{self, Queues, RetryPolicy};

/// A queue to a read model, and the model's tables. Share it, so objects can open a [`Feed`].
#[derive(Clone, Debug)]
pub struct Projection {
    queue: String,
    tables: Tables,
}

impl Projection {
    /// A projection through the queue of this name to this read model.
    pub fn new(queue: impl Into<String>, model: &dyn ReadModel) -> Self {
        Self {
            queue: queue.into(),
            tables: model.tables().clone(),
        }
    }

    /// The queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Adds the queue, with the [default options](queue_options).
    ///
    /// # Panics
    /// As [`Queues::with`].
    #[must_use]
    pub fn install(&self, queues: Queues, model: Arc<dyn ReadModel>) -> Queues {
        self.install_with(queues, queue_options(), model)
    }

    /// Adds the queue, with other options.
    ///
    /// # Panics
    /// As [`Queues::with`].
    #[must_use]
    pub fn install_with(
        &self,
        queues: Queues,
        options: queue::QueueOptions,
        model: Arc<dyn ReadModel>,
    ) -> Queues {
        queues.with(self.queue.clone(), options, Projector(model))
    }
}

/// The default options of a projection's queue: two shards, batches of up to 500 rows, attempts for a day.
pub fn queue_options() -> queue::QueueOptions {
    queue::QueueOptions {
        shards: 2,
        max_batch: 500,
        max_batch_bytes: 8 << 20,
        concurrency: 1,
        timeout: 2 * limits::STATEMENT_TIMEOUT,
        retry: RetryPolicy::Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_mins(5),
            max_attempts: 300,
        },
        ..queue::QueueOptions::default()
    }
}
