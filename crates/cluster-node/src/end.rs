//! Why a member has ended, or could not begin.

use std::{fmt, path::PathBuf};

use abide_cluster::Ended;

/// Why a member has ended. Its process ends, too, and starts again as another session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Its session has ended.
    Session(Ended),
    /// Its store has failed.
    Store(String),
    /// One of its threads has panicked: the program's log has the message.
    Panicked,
    /// It has left, or was dropped.
    Left,
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Left => Self::Left,
            other => Self::Session(other),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(ended) => ended.fmt(f),
            Self::Store(why) => write!(f, "the store has failed: {why}"),
            Self::Panicked => f.write_str("a thread of the cluster has panicked"),
            Self::Left => Ended::Left.fmt(f),
        }
    }
}

/// Why a process could not join its cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Another process uses the directory.
    #[error("{}: another process uses this directory: end it, or give each node its own directory", .0.display())]
    InUse(PathBuf),
    /// The directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    Directory {
        /// Which file or directory it is.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory belongs to something else, or to a newer release.
    #[error("{}: {why}; nothing was changed", path.display())]
    Refused {
        /// Which file it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The database did not begin the session.
    #[error(transparent)]
    Database(#[from] abide_cluster_postgres::Error),
    /// The directory was cloned: a later start of the same node has begun elsewhere. The directory is another node from now on.
    #[error(
        "a later start of this node has joined the cluster from a copy of {}: from now on this directory is another node; start it again", .0.display()
    )]
    Copied(PathBuf),
    /// The clock of this machine differs too much from the database's, by this many milliseconds.
    #[error(
        "the clock of this machine differs from the database's by {0} ms: synchronize both, for instance with chrony"
    )]
    Clock(i64),
    /// The object store has the runs of another cluster.
    #[error("{0}")]
    Runs(String),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] abide_storage::Error),
    /// The system gives no random bits, or starts no thread.
    #[error("{0}")]
    System(String),
}
