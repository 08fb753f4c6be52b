//! The handle: finds shards, and asks all of them.

use std::fmt;

use abide::{Call, Env, Error, Namespace, ObjectClass, Result, Stub};
use futures_util::{StreamExt as _, stream};

use super::{Coordinator, ShardingError, Totals, hash::shard_of};
use crate::patterns::{limits, wrong_length};

/// A sharded namespace: a fixed number of objects of one class. Making it calls none of them.
pub struct Sharded<T: ObjectClass> {
    objects: Namespace<T>,
    coordinator: Stub<Coordinator>,
    name: String,
    shards: u32,
}

impl<T: ObjectClass> Sharded<T> {
    /// The sharded namespace with this name, of objects of a class that is registered once.
    ///
    /// # Errors
    /// [`ShardingError::Invalid`] for a name with a `/`, or of no or more than
    /// [`MAX_SHARDED_NAME_BYTES`](limits::MAX_SHARDED_NAME_BYTES) bytes, and for no or more than
    /// [`MAX_SHARDS`](limits::MAX_SHARDS) shards. If the coordinators' class is not [installed](super::install), an error
    /// that says so.
    pub fn new(env: &Env, name: &str, shards: u32) -> Result<Self, ShardingError> {
        check(name, shards)?;
        Ok(Self {
            objects: env.object::<T>(),
            coordinator: env.try_object::<Coordinator>()?.get_by_name(name),
            name: name.to_owned(),
            shards,
        })
    }

    /// Stores the number of shards at the first call. A program calls it when it starts.
    ///
    /// # Errors
    /// [`ShardingError::Declared`] if there are more or fewer.
    pub async fn declare(&self) -> Result<(), ShardingError> {
        self.coordinator.declare(self.shards).await
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// The shard of a key.
    pub fn of(&self, key: &str) -> Stub<T> {
        self.shard(self.number_of(key))
    }

    /// The number of a key's shard.
    pub fn number_of(&self, key: &str) -> u32 {
        shard_of(key, self.shards)
    }

    /// The shard with a number, counted from 0.
    pub fn shard(&self, number: u32) -> Stub<T> {
        self.objects.get_by_name(&format!("{}/{number}", self.name))
    }

    /// Calls all shards, some at a time, and returns their results in order. A shard's failure does not stop the
    /// calls of the others.
    pub async fn each<R, E: From<Error>>(
        &self,
        call: impl Fn(Stub<T>) -> Call<R, E>,
    ) -> Vec<Result<R, E>> {
        stream::iter(0..self.shards)
            .map(|number| call(self.shard(number)))
            .buffered(limits::SHARDS_AT_A_TIME)
            .collect()
            .await
    }

    /// The sums of what the shards have reported.
    pub async fn totals(&self) -> Result<Totals, ShardingError> {
        self.coordinator.totals().await
    }
}

/// Refuses what cannot be a sharded namespace.
pub(super) fn check(name: &str, shards: u32) -> Result<(), ShardingError> {
    let bytes = limits::MAX_SHARDED_NAME_BYTES;
    let wrong = if name.contains('/') {
        format!("the name of a sharded namespace has no `/`: `{name}`")
    } else if let Some(wrong) = wrong_length("the sharded namespace's name", name, bytes) {
        wrong
    } else if !(1..=limits::MAX_SHARDS).contains(&shards) {
        format!("a sharded namespace has 1 to {} shards", limits::MAX_SHARDS)
    } else {
        return Ok(());
    };
    Err(ShardingError::Invalid(wrong))
}

impl<T: ObjectClass> Clone for Sharded<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            coordinator: self.coordinator.clone(),
            name: self.name.clone(),
            shards: self.shards,
        }
    }
}

impl<T: ObjectClass> fmt::Debug for Sharded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharded")
            .field("name", &self.name)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}
