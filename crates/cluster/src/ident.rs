//! Names and numbers, each with its own type.

/// The number of shards of every cluster.
pub const SHARDS: u16 = 1_024;

/// One start of one process. The number can be issued again by a database that lost commits, so random bits belong to the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// Issued by the database.
    pub number: u64,
    /// Drawn by the process.
    pub nonce: u128,
}

/// A part of all durable objects, by the first bits of their ids: below [`SHARDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

/// The number of one owner's tenure of a shard. It grows with each change of owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation of the tenure after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A position in one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A shard in one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenancy {
    /// The shard.
    pub shard: Shard,
    /// Its generation.
    pub generation: Generation,
}
