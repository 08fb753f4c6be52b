//! What a session says to the database, and what it hears.

use crate::{Generation, Lsn, SessionId, Shard, Tenancy, View};

/// The connections of a session. Each executes one statement at a time. A connection that broke is replaced, and its statement has an
/// unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Connection {
    /// Appends to the log.
    Lane,
    /// Renews the lease. It has a separate connection because a large group, or a slow standby, would delay renewals.
    Lease,
    /// Everything else.
    Control,
}

impl Connection {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lane, Self::Lease, Self::Control];
}

/// One transaction of a session. Each requires that the session is not fenced, except [`Statement::Settle`] and [`Statement::Poll`].
/// Each but [`Statement::Poll`] writes a row of the session, also if nothing else changes: a transaction that writes nothing does not
/// wait for the standby, so its success proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Appends the group of records between two positions, if the lane is at the first.
    Append {
        /// Where the group begins.
        begin: Lsn,
        /// Where it ends.
        end: Lsn,
    },
    /// Writes the lane without changing it, and says where it is.
    Settle,
    /// Raises the session's renewals to this number. Each attempt has a greater one than those before, so a number that a failover
    /// has lost does not return.
    Renew(u64),
    /// Reads who there is and who owns what.
    Poll,
    /// Fences a session, if its renewals are at this number or it is fenced already. Waits for an append that is being committed.
    Fence {
        /// The session to fence.
        session: SessionId,
        /// Its renewals, as last seen.
        renewals: u64,
    },
    /// Fences the session itself, so that others can claim its shards at once.
    Leave,
    /// Takes shards that are at these generations and whose owners are fenced, or that have none.
    Claim(Vec<Tenancy>),
    /// Writes the rows of all shards that the session owns without changing them, and says what it owns.
    Hold,
    /// Gives a shard away, if the session owns it at this generation, its lane has reached the position, and the target is live.
    HandOver {
        /// The shard, and the generation that ends.
        tenancy: Tenancy,
        /// The next owner. The session itself, to take the shard back with a new generation.
        to: SessionId,
        /// Where the shard was closed.
        until: Lsn,
    },
    /// Lists a run of history, unless it is listed. See [`Run`] for what it requires.
    Publish {
        /// What the run has, and what it requires.
        run: Run,
        /// What readers are told of it. `None` if it has no records: then it is only noted that they are archived.
        stored: Option<Stored>,
    },
    /// Removes the records of the session's log, and logs of fenced sessions, that are archived.
    Trim,
}

impl Statement {
    /// Whether its commit proves that the session was not fenced. Only statements count that always change something.
    pub(crate) fn is_proof(&self) -> bool {
        matches!(self, Self::Append { .. } | Self::Renew(_))
    }
}

/// The end of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is committed, on as many machines as it should be.
    Done(Answer),
    /// It was executed and has changed nothing: what it requires was not so. This may be because of a commit that is lost later.
    Refused,
    /// The connection was lost, or the wait for the standby was cancelled: it may be committed, or may be later.
    Unknown,
}

/// What a committed statement says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Nothing but that it is committed.
    Committed,
    /// Of [`Statement::Settle`].
    Lane {
        /// Where the lane is.
        lsn: Lsn,
        /// Whether it is fenced.
        is_fenced: bool,
    },
    /// Of [`Statement::Poll`].
    View(View),
    /// Of [`Statement::Claim`], the shards for which the requirement held. Of [`Statement::HandOver`], what the next owner has.
    Granted(Vec<Grant>),
    /// Of [`Statement::Hold`].
    Held {
        /// The archived position of the lane.
        archived: Lsn,
        /// The number of the last run that was listed.
        listed: u64,
        /// All shards that the session owns.
        grants: Vec<Grant>,
    },
}

/// A shard that a session owns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The shard and its generation.
    pub tenancy: Tenancy,
    /// Where the owner's lane was: its own records of the shard are at or after this position.
    pub since: Lsn,
    /// How long the lanes of all earlier owners were when their tenures ended, together: numbers that begin with a position begin
    /// above it.
    pub floor: u64,
    /// What earlier owners have left and is not archived, in the order of generations.
    pub parts: Vec<Part>,
}

/// The records of a shard and a generation in a part of one lane. Others that lie between are not the shard's, or come from a writer
/// that did not own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The generation of the records.
    pub generation: Generation,
    /// Whose lane it is.
    pub session: SessionId,
    /// The first position.
    pub since: Lsn,
    /// The position after the last.
    pub until: Lsn,
}

/// A run in the store, as its readers find it. Opaque here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// What it has.
    pub about: String,
    /// Where it is.
    pub place: String,
}

/// A run of history that is in the store and is to be listed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The number of the run among those of its session.
    pub number: u64,
    /// The number of the last run that was listed before. The run is refused if another was.
    pub after: u64,
    /// Inherited parts that are in it. Each is archived when the run is listed. The run is refused if the session does not own the shard
    /// of one, or if one is archived.
    pub parts: Vec<(Shard, Part)>,
    /// Where the lane is archived before.
    pub since: Lsn,
    /// The run has all records of the session's own tenures from there to this position. The lane is archived up to it when the run is
    /// listed.
    pub until: Lsn,
    /// The tenures that began before that position. The run is refused if the session does not own one of them any more.
    pub tenancies: Vec<Tenancy>,
}
