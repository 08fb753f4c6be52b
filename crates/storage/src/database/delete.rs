//! Deletes everything that an object has stored.

use super::ObjectDb;
use crate::error::Result;
use rusqlite::config::DbConfig;

impl ObjectDb {
    /// Removes every table, view, trigger, index and key, and the alarm, and frees the space at the commit.
    /// If nothing is written afterwards, the object ends when the connection closes: it then is as one that was never
    /// written, and the next checkpoint removes its file. If it fails, nothing is removed.
    pub fn delete_all(&self) -> Result<()> {
        self.begin()?;
        // Foreign keys would forbid some orders of dropping.
        let foreign_keys = |on| {
            self.connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, on)
        };
        let before = self
            .connection
            .db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY)
            .map_err(|e| self.sql_error(&e))?;
        foreign_keys(false).map_err(|e| self.sql_error(&e))?;
        let dropped = self.transaction(|| {
            self.clear_alarms()?;
            let _engine = self.changes.of_engine(&self.connection);
            self.guard
                .trusted(|| self.drop_everything())
                .map_err(|e| self.sql_error(&e))
        });
        foreign_keys(before).map_err(|e| self.sql_error(&e))?;
        dropped?;
        self.vacuum.set(true);
        Ok(())
    }

    /// Returns whether nothing of the object has to be remembered, so that it may end: it holds nothing but its name and its
    /// timeline.
    pub(super) fn is_empty(&self) -> Result<bool> {
        Ok(self.is_vacant()?
            && !self.remembers()?
            && self.alarm_entry()?.is_none()
            && !self.timeline()?.dormant)
    }

    /// Returns whether the object has no content, so that another one may be [forked](crate::Store::fork) to it: no table, view,
    /// trigger, index, key, alarm or requested restore, and its `user_version` is 0. Its name, its timeline and the results of
    /// calls with an idempotency key do not count.
    pub fn is_vacant(&self) -> Result<bool> {
        let holds = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'
                AND name NOT IN ('_abide_kv', '_abide_meta', '_abide_alarms', '_abide_idempotency'))
            OR EXISTS (SELECT 1 FROM _abide_kv)
            OR EXISTS (SELECT 1 FROM _abide_meta WHERE key NOT IN ('name', 'born', 'timeline'))
            OR (SELECT user_version FROM pragma_user_version) <> 0/*abide*/";
        let holds: Option<bool> = self.internal_row(holds, (), |row| row.get(0))?;
        Ok(holds == Some(false) && self.alarms()?.is_empty())
    }

    fn drop_everything(&self) -> rusqlite::Result<()> {
        // Dropping a virtual table also drops its shadow tables, so the remaining items are queried again each time. With
        // GLOB, because a user's `PRAGMA case_sensitive_like` changes LIKE.
        let next = "SELECT type, name FROM sqlite_schema
            WHERE name NOT GLOB 'sqlite_*' AND name NOT GLOB '_abide_*' AND type <> 'index'
            ORDER BY type = 'trigger' DESC, type = 'view' DESC, upper(sql) GLOB 'CREATE VIRTUAL*' DESC LIMIT 1";
        loop {
            let found = self.connection.query_row(next, (), |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            });
            match found {
                Ok((kind, name)) => {
                    let name = name.replace('"', "\"\"");
                    self.connection
                        .execute_batch(&format!("DROP {kind} \"{name}\""))?;
                }
                Err(rusqlite::Error::QueryReturnedNoRows) => break,
                Err(error) => return Err(error),
            }
        }
        for table in ["sqlite_sequence", "sqlite_stat1", "sqlite_stat4"] {
            let there = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
            if self
                .connection
                .query_row(there, [table], |row| row.get::<_, i64>(0))?
                > 0
            {
                self.connection
                    .execute_batch(&format!("DELETE FROM {table}"))?;
            }
        }
        self.connection
            .execute_batch("DELETE FROM _abide_kv; DROP TABLE IF EXISTS _abide_idempotency; PRAGMA user_version = 0")
    }
}
