//! The tables of a desk.

use abide::prelude::*;
use serde::{Deserialize, Serialize};

/// Tickets in one page of a list.
const PAGE: i64 = 100;

/// One step for each version of the tables; steps that have been released do not change.
const STEPS: [&str; 1] = ["
    CREATE TABLE tickets (
        id INTEGER PRIMARY KEY, subject TEXT NOT NULL, opened_by TEXT NOT NULL, assignee TEXT, status TEXT NOT NULL,
        opened_at INTEGER NOT NULL, escalated_at INTEGER, closed_at INTEGER
    );
    CREATE INDEX tickets_by_status ON tickets (status, id);
    CREATE TABLE comments (
        id INTEGER PRIMARY KEY, ticket INTEGER NOT NULL REFERENCES tickets, author TEXT NOT NULL, text TEXT NOT NULL,
        at INTEGER NOT NULL
    );
    CREATE INDEX comments_by_ticket ON comments (ticket, id);
"];

/// Where a ticket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The desk has to answer it.
    Open,
    /// The same, and it has taken too long.
    Escalated,
    /// Done.
    Closed,
}

/// A ticket. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its number on its desk.
    pub id: i64,
    /// What it is about.
    pub subject: String,
    /// Who needs help.
    pub opened_by: String,
    /// Who helps.
    pub assignee: Option<String>,
    /// Where it is.
    pub status: Status,
    /// When it was opened.
    pub opened_at: i64,
    /// When it was escalated, if it was.
    pub escalated_at: Option<i64>,
    /// When it was closed.
    pub closed_at: Option<i64>,
}

/// A comment on a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Its number on its desk.
    pub id: i64,
    /// Who wrote it.
    pub author: String,
    /// The text.
    pub text: String,
    /// When.
    pub at: i64,
}

/// A ticket with its comments, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The ticket.
    #[serde(flatten)]
    pub ticket: Ticket,
    /// Its comments.
    pub comments: Vec<Comment>,
}

/// The tickets of one desk.
#[derive(Clone)]
pub(crate) struct Tickets(Sql);

impl Tickets {
    /// Brings the tables up to date, in the object's constructor.
    pub(crate) fn open(sql: Sql) -> Result<Self> {
        let done: usize = sql.exec("PRAGMA user_version", ())?.one()?;
        for (version, step) in STEPS.iter().enumerate().skip(done) {
            sql.exec(step, ())?;
            sql.exec(&format!("PRAGMA user_version = {}", version + 1), ())?;
        }
        Ok(Self(sql))
    }

    pub(crate) fn add(&self, subject: &str, opened_by: &str, now: i64) -> Result<Ticket> {
        let sql = "INSERT INTO tickets (subject, opened_by, status, opened_at) VALUES (?, ?, 'open', ?) RETURNING *";
        self.0.exec(sql, params![subject, opened_by, now])?.one()
    }

    pub(crate) fn get(&self, id: i64) -> Result<Option<Ticket>> {
        self.0
            .exec("SELECT * FROM tickets WHERE id = ?", (id,))?
            .optional()
    }

    /// The newest tickets with an id below `before`, of one status or of all.
    pub(crate) fn list(&self, status: Option<Status>, before: i64) -> Result<Vec<Ticket>> {
        let sql = "SELECT * FROM tickets WHERE (?1 IS NULL OR status = ?1) AND id < ?2 ORDER BY id DESC LIMIT ?3";
        self.0
            .exec(sql, params![status.map(Status::as_str), before, PAGE])?
            .all()
    }

    /// `None` if there is no such ticket.
    pub(crate) fn assign(&self, id: i64, assignee: &str) -> Result<Option<Ticket>> {
        let sql = "UPDATE tickets SET assignee = ? WHERE id = ? RETURNING *";
        self.0.exec(sql, params![assignee, id])?.optional()
    }

    /// `None` if the ticket is not open any more.
    pub(crate) fn escalate(&self, id: i64, now: i64) -> Result<Option<Ticket>> {
        let sql = "UPDATE tickets SET status = 'escalated', escalated_at = ? WHERE id = ? AND status = 'open' RETURNING *";
        self.0.exec(sql, params![now, id])?.optional()
    }

    /// `None` if there is no such ticket, or it is closed already.
    pub(crate) fn close(&self, id: i64, now: i64) -> Result<Option<Ticket>> {
        let sql = "UPDATE tickets SET status = 'closed', closed_at = ? WHERE id = ? AND status <> 'closed' RETURNING *";
        self.0.exec(sql, params![now, id])?.optional()
    }

    pub(crate) fn add_comment(
        &self,
        ticket: i64,
        author: &str,
        text: &str,
        now: i64,
    ) -> Result<Comment> {
        let sql = "INSERT INTO comments (ticket, author, text, at) VALUES (?, ?, ?, ?) RETURNING id, author, text, at";
        self.0.exec(sql, params![ticket, author, text, now])?.one()
    }

    pub(crate) fn comments(&self, ticket: i64) -> Result<Vec<Comment>> {
        let sql = "SELECT id, author, text, at FROM comments WHERE ticket = ? ORDER BY id";
        self.0.exec(sql, (ticket,))?.all()
    }
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Escalated => "escalated",
            Self::Closed => "closed",
        }
    }
}
