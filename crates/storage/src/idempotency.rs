//! Results of calls, stored under the callers' idempotency keys.
//!
//! A row is written in the transaction of the call's last writes, so after a crash there are either both or neither.
//! The table is created with the first row. When a row is written, the oldest rows are removed: a few expired ones, and
//! as many as needed to stay within the limits. Rows are almost only removed at that end, so the first and the last row
//! give the number of rows and their total size without counting.

use crate::database::ObjectDb;
use crate::error::Result;
use crate::limits::{
    EXPIRED_KEYS_PER_WRITE, IDEMPOTENCY_TTL, MAX_IDEMPOTENCY_BYTES, MAX_IDEMPOTENCY_KEYS,
    MAX_REMEMBERED_RESULT_BYTES,
};

const CREATE: &str = "CREATE TABLE IF NOT EXISTS _abide_idempotency (
    seq INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, method TEXT NOT NULL, fingerprint BLOB NOT NULL,
    result BLOB, time INTEGER NOT NULL, bytes INTEGER NOT NULL, total INTEGER NOT NULL)/*abide*/";

const INSERT: &str =
    "INSERT INTO _abide_idempotency (key, method, fingerprint, result, time, bytes, total)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)/*abide*/";

/// A call to remember.
#[derive(Clone, Copy, Debug)]
pub struct KeyedCall<'a> {
    /// The caller's key.
    pub key: &'a str,
    /// The method's name.
    pub method: &'a str,
    /// A hash of the method and its arguments, which distinguishes a repeated call from another with the same key.
    pub fingerprint: &'a [u8; 32],
}

/// A remembered call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The hash of the method and its arguments.
    pub fingerprint: [u8; 32],
    /// The result; `None` if there was none, or it was too large.
    pub result: Option<Vec<u8>>,
}

/// A row of a remembered call, without its number.
#[derive(Debug)]
pub(crate) struct CallRow {
    key: String,
    method: String,
    fingerprint: Vec<u8>,
    result: Option<Vec<u8>>,
    time: i64,
    bytes: i64,
    total: i64,
}

impl ObjectDb {
    /// The call remembered under a key. `now` is in milliseconds since 1970.
    pub fn remembered(&self, key: &str, now: u64) -> Result<Option<Remembered>> {
        if !self.remembers()? {
            return Ok(None);
        }
        let sql = "SELECT fingerprint, result FROM _abide_idempotency WHERE key = ?1 AND time > ?2/*abide*/";
        self.internal_row(sql, (key, expired(now)), |row| {
            Ok(Remembered {
                fingerprint: row.get(0)?,
                result: row.get(1)?,
            })
        })
    }

    /// The rows of all remembered calls, oldest first.
    pub(crate) fn calls(&self) -> Result<Vec<CallRow>> {
        let mut calls = Vec::new();
        if !self.remembers()? {
            return Ok(calls);
        }
        let all = "SELECT key, method, fingerprint, result, time, bytes, total FROM _abide_idempotency ORDER BY seq/*abide*/";
        self.rare_rows(all, |row| {
            let call = || {
                Ok(CallRow {
                    key: row.get(0)?,
                    method: row.get(1)?,
                    fingerprint: row.get(2)?,
                    result: row.get(3)?,
                    time: row.get(4)?,
                    bytes: row.get(5)?,
                    total: row.get(6)?,
                })
            };
            calls.push(call().map_err(|e| self.sql_error(&e))?);
            Ok(())
        })?;
        Ok(calls)
    }

    /// Remembers these calls instead of those in the database, in the current transaction.
    pub(crate) fn remember_only(&self, calls: &[CallRow]) -> Result<()> {
        self.begin()?;
        self.internal("DROP TABLE IF EXISTS _abide_idempotency/*abide*/", ())?;
        if calls.is_empty() {
            return Ok(());
        }
        self.internal(CREATE, ())?;
        for call in calls {
            self.internal(
                INSERT,
                (
                    &*call.key,
                    &*call.method,
                    &*call.fingerprint,
                    call.result.as_deref(),
                    call.time,
                    call.bytes,
                    call.total,
                ),
            )?;
        }
        Ok(())
    }

    /// Remembers a call's result, in the current transaction. A result that is too large is omitted, but the call is
    /// still remembered.
    pub fn remember(&self, call: KeyedCall<'_>, result: Option<&[u8]>, now: u64) -> Result<()> {
        self.begin()?;
        self.internal(CREATE, ())?;
        // An expired row with the same key.
        let delete = "DELETE FROM _abide_idempotency WHERE key = ?1/*abide*/";
        self.internal(delete, [call.key])?;
        let result = result.filter(|result| result.len() <= MAX_REMEMBERED_RESULT_BYTES);
        let bytes = call.key.len() + call.method.len() + result.map_or(0, <[u8]>::len);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let last = "SELECT total FROM _abide_idempotency ORDER BY seq DESC LIMIT 1/*abide*/";
        let before: i64 = self.internal_row(last, (), |row| row.get(0))?.unwrap_or(0);
        let total = before + bytes;
        let time = i64::try_from(now).unwrap_or(i64::MAX);
        self.internal(
            INSERT,
            (
                call.key,
                call.method,
                call.fingerprint,
                result,
                time,
                bytes,
                total,
            ),
        )?;
        self.forget_old(total, now)
    }

    /// Removes the oldest rows. `total` is that of the newest row.
    fn forget_old(&self, total: i64, now: u64) -> Result<()> {
        let newest = "SELECT max(seq) FROM _abide_idempotency/*abide*/";
        let newest: i64 = self
            .internal_row(newest, (), |row| row.get(0))?
            .unwrap_or(0);
        let mut expired_left = EXPIRED_KEYS_PER_WRITE;
        loop {
            let oldest = "SELECT seq, time, total - bytes FROM _abide_idempotency ORDER BY seq LIMIT 1/*abide*/";
            let oldest = self.internal_row(oldest, (), |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, i64>(2)?,
                ))
            })?;
            let Some((seq, time, before)) = oldest.filter(|(seq, ..)| *seq < newest) else {
                return Ok(());
            };
            let too_many = newest - seq >= MAX_IDEMPOTENCY_KEYS;
            let too_large = total - before > MAX_IDEMPOTENCY_BYTES;
            if !too_many && !too_large {
                if time > expired(now) || expired_left == 0 {
                    return Ok(());
                }
                expired_left -= 1;
            }
            let delete = "DELETE FROM _abide_idempotency WHERE seq = ?1/*abide*/";
            self.internal(delete, [seq])?;
        }
    }

    /// Returns whether a call was ever remembered.
    pub(crate) fn remembers(&self) -> Result<bool> {
        let there = "SELECT 1 FROM sqlite_schema WHERE name = '_abide_idempotency'/*abide*/";
        Ok(self.internal_row(there, (), |_| Ok(()))?.is_some())
    }
}

/// Rows of this time and before have expired.
fn expired(now: u64) -> i64 {
    let ttl = u64::try_from(IDEMPOTENCY_TTL.as_millis()).unwrap_or(u64::MAX);
    i64::try_from(now).unwrap_or(i64::MAX) - i64::try_from(ttl).unwrap_or(i64::MAX)
}
