//! Enforces the storage limits on statements.
//!
//! A statement that grows the database beyond its limit is undone, and the transaction continues without it. SQLite's
//! own `max_page_count`, which ends the transaction, is set above the reserve.

use super::{ObjectDb, State};
use crate::error::{Error, Result};
use crate::limits::VACUUM_WHEN_FULL_BYTES;
use crate::sql_limits::SqlLimits;

impl ObjectDb {
    pub(crate) fn sql_limits(&self) -> SqlLimits {
        self.file.sql_limits()
    }

    /// Sets whether writes from here on may use the reserve beyond the storage limits: for work that must be able to
    /// finish, such as alarms. Initially false. Updates, deletes and the engine's own writes always may.
    pub fn use_reserve(&self, uses: bool) {
        self.uses_reserve.set(uses);
    }

    /// Runs a statement that writes, after [`Self::begin`].
    pub(crate) fn bounded<R, E: From<Error>>(
        &self,
        write: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let bound = self.bound.get().filter(|_| !self.uses_reserve.get());
        let Some(bound) = bound else {
            return write();
        };
        let before = self.page_count()?;
        let most = bound.pages.max(before);
        // A savepoint costs more than the check afterwards.
        let near = self.sql_limits().near_bound_pages();
        let is_near = before.saturating_add(near) >= bound.pages;
        if is_near {
            self.internal("SAVEPOINT abide/*abide*/", ())?;
        }
        let result = write();
        // SQLite may have ended the transaction, and with it the savepoint.
        let goes_on = self.state.get() == State::Transaction;
        let is_over = goes_on && self.page_count()? > most;
        if is_near && goes_on {
            if is_over {
                self.internal("ROLLBACK TO abide/*abide*/", ())?;
            }
            self.internal("RELEASE abide/*abide*/", ())?;
        }
        if !is_over {
            return result;
        }
        let refusal = self.file.refusal(bound.of);
        if !is_near {
            self.lose(refusal.clone());
        }
        Err(refusal.into())
    }

    /// Rolls the transaction back.
    fn lose(&self, why: Error) {
        let _ = self.internal("ROLLBACK/*abide*/", ());
        self.file.discard();
        self.state.set(State::Lost);
        self.lost_to.replace(Some(why));
    }

    /// While all objects together have reached their limit, an object with many free pages returns them.
    pub(super) fn shrink_if_full(&self) {
        if !self.file.store_is_full() {
            return;
        }
        let free = || {
            let pages = self.page_count()?;
            let free = self.internal_row("PRAGMA freelist_count/*abide*/", (), |row| row.get(0))?;
            Ok::<_, Error>((pages, free.unwrap_or(0_u32)))
        };
        if let Ok((pages, free)) = free()
            && free >= pages.div_ceil(4)
            && u64::from(pages) * crate::limits::PAGE_BYTES as u64 <= VACUUM_WHEN_FULL_BYTES
        {
            self.vacuum.set(true);
        }
    }

    /// The database's size in pages, including uncommitted ones.
    pub(super) fn page_count(&self) -> Result<u32> {
        let pages = self.internal_row("PRAGMA page_count/*abide*/", (), |row| row.get(0))?;
        Ok(pages.unwrap_or(0))
    }
}
