//! The connections of a session.

use std::{
    sync::{Mutex as Lock, MutexGuard, PoisonError},
    time::Duration,
};

use abide_cluster::{Connection, Outcome, SessionId, Statement};
use tokio::sync::Mutex;
use tracing::debug;

use crate::{
    Database,
    database::line_name,
    limits::{HALF_BYTES, LEAST_BYTES_PER_SECOND, RENEW_TIMEOUT, STATEMENT_TIMEOUT},
    line::Line,
    statement::{self, Context},
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

    /// Executes a statement of a connection. `group` has the records of an [`Statement::Append`], in any form; otherwise it is empty.
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
        line.patience = patience(statement, group.len() as u64);
        let half = self.half(statement, group.len() as u64);
        let context = Context {
            me: self.me,
            group,
            half,
        };
        match statement::execute(&mut line, statement, context).await {
            Ok(_) if line.is_warned() => None,
            Ok(executed) => {
                if executed.is_other_half_empty {
                    self.other_is_empty(half);
                }
                let outcome = executed.answer.map_or(Outcome::Refused, Outcome::Done);
                Some((line, outcome))
            }
            Err(failure) => {
                debug!(%failure, ?statement, "a statement has an unknown outcome");
                if let (Statement::Fence { session, .. }, true) = (statement, failure.is_locked()) {
                    self.end_statements(*session).await;
                }
                None
            }
        }
    }

    /// A statement of the session that is to be fenced takes too long: its connections end.
    async fn end_statements(&self, session: SessionId) {
        if let Err(error) = self.database.end_lines(session).await {
            debug!(%error, ?session, "the connections of a silent session could not be ended");
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

    /// The table is empty that was not filled while this one was.
    fn other_is_empty(&self, filled: usize) {
        let mut halves = self.halves();
        halves.is_other_empty |= halves.filled == filled;
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

/// How long an answer is waited for.
fn patience(statement: &Statement, bytes: u64) -> Duration {
    match statement {
        Statement::Renew(_) | Statement::Leave => RENEW_TIMEOUT,
        _ => STATEMENT_TIMEOUT + Duration::from_secs(bytes / LEAST_BYTES_PER_SECOND),
    }
}
