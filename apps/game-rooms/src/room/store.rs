//! What a room keeps on disk: who its screen is, and who its players are.

use std::time::Duration;

use abide::{Result, Sql};

use crate::limits::PLACE_KEPT;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS room (
        one        INTEGER PRIMARY KEY CHECK (one = 1),
        code       TEXT NOT NULL,
        host       TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        is_empty   INTEGER NOT NULL DEFAULT 1,
        is_over    INTEGER NOT NULL DEFAULT 0,
        newest     INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE IF NOT EXISTS players (
        number  INTEGER PRIMARY KEY,
        secret  TEXT NOT NULL UNIQUE,
        left_at INTEGER
    );
";

/// The tables of a room.
pub(super) struct Store(Sql);

/// An open room.
pub(super) struct Room {
    pub(super) code: String,
    /// The digest of the screen's secret.
    pub(super) host: String,
    pub(super) created_at: i64,
    /// Whether the screen is known to be away.
    pub(super) is_empty: bool,
    /// Whether it is about to be deleted.
    pub(super) is_over: bool,
}

impl Store {
    pub(super) fn open(sql: Sql) -> Result<Self> {
        sql.exec(SCHEMA, ())?;
        Ok(Self(sql))
    }

    /// The room, unless it has not been opened, or has ended.
    pub(super) fn room(&self) -> Result<Option<Room>> {
        let row: Option<(String, String, i64, i64, i64)> = self
            .0
            .exec(
                "SELECT code, host, created_at, is_empty, is_over FROM room",
                (),
            )?
            .optional()?;
        Ok(row.map(|(code, host, created_at, is_empty, is_over)| Room {
            code,
            host,
            created_at,
            is_empty: is_empty != 0,
            is_over: is_over != 0,
        }))
    }

    pub(super) fn begin(&self, code: &str, host: &str, created_at: i64) -> Result<()> {
        self.0.exec(
            "INSERT INTO room (one, code, host, created_at) VALUES (1, ?, ?, ?)",
            (code, host, created_at),
        )?;
        Ok(())
    }

    pub(super) fn set_empty(&self, is_empty: bool) -> Result<()> {
        self.0
            .exec("UPDATE room SET is_empty = ?", (i64::from(is_empty),))?;
        Ok(())
    }

    pub(super) fn set_over(&self) -> Result<()> {
        self.0.exec("UPDATE room SET is_over = 1", ())?;
        Ok(())
    }

    /// The number of the player with this secret: the one that it had before, or that of a free place. `None` if all `most`
    /// places are taken. `present` are the players who have an open socket.
    pub(super) fn seat(
        &self,
        secret: &str,
        present: &[u32],
        most: u32,
        now: i64,
    ) -> Result<Option<u32>> {
        let known = "UPDATE players SET left_at = NULL WHERE secret = ? RETURNING number";
        if let Some(number) = self.0.exec(known, (secret,))?.optional::<u32>()? {
            return Ok(Some(number));
        }
        self.note_absent(present, now)?;
        let taken: u32 = self.0.exec("SELECT count(*) FROM players", ())?.one()?;
        if taken >= most {
            // Away for too long, or since a time that the clock has not reached: it was set back.
            self.0.exec(
                "DELETE FROM players WHERE number IN (
                     SELECT number FROM players WHERE left_at NOT BETWEEN ? AND ? ORDER BY left_at LIMIT ?
                 )",
                (now - millis(PLACE_KEPT), now, 1 + taken - most),
            )?;
            let taken: u32 = self.0.exec("SELECT count(*) FROM players", ())?.one()?;
            if taken >= most {
                return Ok(None);
            }
        }
        let number: u32 = self
            .0
            .exec("UPDATE room SET newest = newest + 1 RETURNING newest", ())?
            .one()?;
        self.0.exec(
            "INSERT INTO players (number, secret) VALUES (?, ?)",
            (number, secret),
        )?;
        Ok(Some(number))
    }

    /// Players whose sockets ended without an event, because the process did, are away from now on.
    fn note_absent(&self, present: &[u32], now: i64) -> Result<()> {
        let here: Vec<u32> = self
            .0
            .exec("SELECT number FROM players WHERE left_at IS NULL", ())?
            .all()?;
        for number in here.iter().filter(|number| !present.contains(number)) {
            self.left(*number, now)?;
        }
        Ok(())
    }

    /// A player's socket has ended.
    pub(super) fn left(&self, number: u32, now: i64) -> Result<()> {
        let left = "UPDATE players SET left_at = ? WHERE number = ?";
        self.0.exec(left, (now, number))?;
        Ok(())
    }
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
