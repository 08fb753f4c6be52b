//! The tables.

use abide::prelude::*;

use crate::budget;

const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS posts (
         id       INTEGER PRIMARY KEY,
         slug     TEXT NOT NULL UNIQUE,
         title    TEXT NOT NULL,
         text     TEXT NOT NULL,
         at       INTEGER NOT NULL,
         comments INTEGER NOT NULL DEFAULT 0
     )",
    "CREATE TABLE IF NOT EXISTS members (
         id    INTEGER PRIMARY KEY,
         email TEXT NOT NULL UNIQUE COLLATE NOCASE,
         name  TEXT NOT NULL,
         at    INTEGER NOT NULL
     )",
    "CREATE TABLE IF NOT EXISTS comments (
         id     INTEGER PRIMARY KEY AUTOINCREMENT,
         post   INTEGER NOT NULL REFERENCES posts,
         member INTEGER NOT NULL REFERENCES members,
         name   TEXT NOT NULL,
         text   TEXT NOT NULL,
         at     INTEGER NOT NULL,
         mark   TEXT NOT NULL,
         removed_at INTEGER,
         UNIQUE (member, mark)
     )",
    "CREATE INDEX IF NOT EXISTS comments_of_post ON comments (post, id)",
    // `since` is the member's first comment on the post; 0 for the post's author. Unconfirmed members get no notices.
    "CREATE TABLE IF NOT EXISTS follows (
         post         INTEGER NOT NULL REFERENCES posts,
         member       INTEGER NOT NULL REFERENCES members,
         since        INTEGER NOT NULL,
         asked_at     INTEGER NOT NULL,
         confirmed_at INTEGER,
         PRIMARY KEY (post, member)
     ) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS follows_unconfirmed ON follows (member) WHERE confirmed_at IS NULL",
    "CREATE INDEX IF NOT EXISTS follows_waiting ON follows (asked_at) WHERE confirmed_at IS NULL",
    // `state` is 'waiting', 'sent' or 'failed', since that time.
    "CREATE TABLE IF NOT EXISTS thanks (
         member INTEGER PRIMARY KEY REFERENCES members,
         state  TEXT NOT NULL,
         since  INTEGER NOT NULL,
         error  TEXT
     )",
    budget::SCHEMA,
];

/// Creates the missing tables.
pub(super) fn create(storage: &Storage) -> Result<()> {
    let sql = storage.sql();
    for statement in SCHEMA {
        sql.exec(statement, ())?;
    }
    Ok(())
}
