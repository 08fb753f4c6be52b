//! What can go wrong outside of the statements of a session, whose failures are [`Outcome`](abide_cluster::Outcome)s.

use std::{error::Error as _, time::Duration};

use abide_cluster::{Lsn, SessionId};
use tokio_postgres::error::SqlState;

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one of a PostgreSQL server.
    #[error("the address of the PostgreSQL server is not valid: {0}")]
    Address(String),
    /// The server did not answer, or refused. Trying again may help. What was asked for may have happened.
    #[error("PostgreSQL: {0}")]
    Unavailable(String),
    /// The database has no tables of a cluster.
    #[error(
        "the database has no cluster: create its tables with `abide cluster init`, or with `abide cluster rebuild` if the cluster has lost its database"
    )]
    NotInitialized,
    /// The database has tables of a cluster.
    #[error(
        "the database has the tables of a cluster, and they stay as they are: rebuild the tables in an empty database"
    )]
    Exists,
    /// The tables are those of an earlier release.
    #[error(
        "the tables of the cluster have version {found}, of an earlier release: stop all nodes, and run `abide cluster init`"
    )]
    Older {
        /// The version of the tables.
        found: i32,
    },
    /// A newer release has changed the tables.
    #[error(
        "the tables of the cluster have version {found}, and this release knows version {known}: use a newer release"
    )]
    Newer {
        /// The version of the tables.
        found: i32,
        /// The version that this release knows.
        known: i32,
    },
    /// A confirmed commit can be lost when the server's machine is.
    #[error("{0}")]
    NotDurable(String),
    /// Records are missing in a log.
    #[error("the log of session {} has no record at position {}, where one was committed", session.number, at.0)]
    Missing {
        /// Whose log it is.
        session: SessionId,
        /// The position.
        at: Lsn,
    },
}

/// Why a request to the server has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}", text(.0))]
    Server(#[from] tokio_postgres::Error),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("the answer is not one of this release: {0}")]
    Unreadable(String),
    #[error("{0}")]
    NotDurable(String),
}

impl Failure {
    /// Whether a lock was waited for too long.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotDurable(why) => Self::NotDurable(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(of) => of.to_string(),
        // Why there is no connection is in the source alone.
        None => match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
