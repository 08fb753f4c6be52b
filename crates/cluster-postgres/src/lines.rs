//! The connections of a session.

use std::sync::{Mutex as Lock, MutexGuard, PoisonError};

use abide_cluster::{Connection, Outcome, SessionId, Statement};
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tracing::debug;

use crate::{
    Database,
    database::line_name,
    limits::{HALF_BYTES, STATEMENT_TIMEOUT},
    line::Line,
    statement::{self, Context, Failure},
};

/// The connections of a session. They are opened when they are needed, and opened anew after a statement of unknown outcome.
#[derive(Debug)]
pub struct Lines {
    database: Database,
    me: SessionId,
    /// In the order of [`Connection::ALL`].
    slots: [Mutex<Option<Line>>; Connection::ALL.len()],
    halves: Lock<Halves>,
}

/// The two tables of the session's log.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    /// The one that is filled.
    filled: usize,
    /// The bytes that were appended to it.
    bytes: u64,
    is_other_empty: bool,
}

impl Lines {
    /// Those of a session that has begun.
    pub fn new(database: Database, me: SessionId) -> Self {
        Self {
            database,
            me,
            slots: Default::default(),
            halves: Lock::new(Halves {
                is_other_empty: true,
                ..Halves::default()
            }),
        }
    }

    /// Executes a statement of a connection. `group` has the bytes between the positions of an [`Statement::Append`]; otherwise it is
    /// empty.
    ///
    /// Every error is [`Outcome::Unknown`]. If the future is dropped, the statement may still be executed.
    pub async fn execute(
        &self,
        connection: Connection,
        statement: &Statement,
        group: &[u8],
    ) -> Outcome {
        let mut slot = self.slots[place(connection)].lock().await;
        // Not in the slot while the statement is under way: if this future is dropped, so is the connection.
        let line = match slot.take() {
            Some(line) => line,
            None => match self.open(connection).await {
                Some(line) => line,
                None => return Outcome::Unknown,
            },
        };
        let Some((line, outcome)) = self.ask(line, statement, group).await else {
            return Outcome::Unknown;
        };
        *slot = Some(line);
        outcome
    }

    async fn open(&self, connection: Connection) -> Option<Line> {
        let name = line_name(connection, self.me);
        match self.database.open(&name).await {
            Ok(line) => Some(line),
            Err(error) => {
                debug!(%error, ?connection, "a session has no connection");
                None
            }
        }
    }

    /// The connection comes back if the outcome is known.
    async fn ask(
        &self,
        mut line: Line,
        statement: &Statement,
        group: &[u8],
    ) -> Option<(Line, Outcome)> {
        let half = self.half(statement, group.len() as u64);
        let context = Context {
            me: self.me,
            group,
            half,
        };
        let asked = statement::execute(&mut line, statement, context);
        match tokio::time::timeout(STATEMENT_TIMEOUT, asked).await {
            Ok(Ok(_)) if line.is_warned() => None,
            Ok(Ok(executed)) => {
                self.halves().is_other_empty |= executed.is_other_half_empty;
                Some((
                    line,
                    executed.answer.map_or(Outcome::Refused, Outcome::Done),
                ))
            }
            Ok(Err(failure)) => {
                debug!(%failure, ?statement, "a statement has an unknown outcome");
                if let (Statement::Fence { session, .. }, true) = (statement, is_locked(&failure)) {
                    self.end_append(*session).await;
                }
                None
            }
            Err(_) => {
                debug!(?statement, "a statement was given up");
                None
            }
        }
    }

    /// A commit of the session that is to be fenced is in flight for too long: its connection ends.
    async fn end_append(&self, session: SessionId) {
        let name = line_name(Connection::Lane, session);
        if let Err(error) = self.database.end_lines(&[name]).await {
            debug!(%error, ?session, "the connection of a silent session could not be ended");
        }
    }

    /// The table of the log for a statement.
    fn half(&self, statement: &Statement, bytes: u64) -> usize {
        let mut halves = self.halves();
        if let Statement::Append { .. } = statement {
            if halves.bytes >= HALF_BYTES && halves.is_other_empty {
                *halves = Halves {
                    filled: 1 - halves.filled,
                    ..Halves::default()
                };
            }
            halves.bytes += bytes;
        }
        halves.filled
    }

    fn halves(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(connection: Connection) -> usize {
    match connection {
        Connection::Lane => 0,
        Connection::Lease => 1,
        Connection::Control => 2,
    }
}

fn is_locked(failure: &Failure) -> bool {
    match failure {
        Failure::Server(error) => error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE),
        Failure::Unreadable(_) => false,
    }
}
