//! A session's use of its browser, from the request's arrival to its answer.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::{Instant, timeout_at};

use super::{Browser, Cell, Inner, Open, PoolError, Waiting};
use crate::limits;

/// A session's use of its browser.
pub(super) struct Lease<'a> {
    pool: &'a Inner,
    session: &'a str,
    cell: Cell,
}

impl<'a> Lease<'a> {
    pub(super) fn new(pool: &'a Inner, session: &'a str) -> Self {
        let mut open = pool.open();
        let open = open.entry(session.to_owned()).or_insert_with(|| Open {
            cell: Cell::default(),
            users: 0,
            used: 0,
            browser: None,
        });
        open.users += 1;
        let cell = Arc::clone(&open.cell);
        Self {
            pool,
            session,
            cell,
        }
    }

    /// The session's browser, and whether it was started for this.
    pub(super) async fn browser(
        &self,
        deadline: Instant,
    ) -> Result<(Arc<Browser>, bool), PoolError> {
        let mut cell = match self.cell.try_lock() {
            Ok(cell) => cell,
            // Another request of the session is starting it.
            Err(_) => {
                let _waiting = Waiting::enter(&self.pool.waiting, limits::MAX_WAITING)?;
                let locked = timeout_at(deadline, self.cell.lock()).await;
                locked.map_err(|_| PoolError::Busy)?
            }
        };
        if let Some(browser) = cell.as_ref().filter(|browser| !browser.is_gone()) {
            return Ok((Arc::clone(browser), false));
        }
        cell.take();
        self.set(None);
        let slot = self.pool.slot(deadline).await?;
        let browser = Arc::new(self.pool.launch(slot).await?);
        self.set(Some(Arc::clone(&browser)));
        // If the program is ending, no other task will close it.
        if self.pool.is_closing.load(Ordering::SeqCst) {
            return Err(PoolError::Busy);
        }
        *cell = Some(Arc::clone(&browser));
        Ok((browser, true))
    }

    /// Leaves a browser that has ended to its other users, who will notice. The next request starts another.
    pub(super) fn forget(&self, browser: &Arc<Browser>) {
        let mut open = self.pool.open();
        let is_current = |open: &&mut Open| {
            open.browser
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, browser))
        };
        if let Some(open) = open.get_mut(self.session).filter(is_current) {
            open.browser = None;
            open.cell = Cell::default();
        }
    }

    fn set(&self, browser: Option<Arc<Browser>>) {
        let mut open = self.pool.open();
        if let Some(open) = open.get_mut(self.session)
            && Arc::ptr_eq(&open.cell, &self.cell)
        {
            open.browser = browser;
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut open = self.pool.open();
        let Some(entry) = open.get_mut(self.session) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        entry.used = self.pool.next.fetch_add(1, Ordering::Relaxed);
        let is_wanted = self.pool.waiting_for_slot.load(Ordering::Relaxed) > 0;
        if entry.users == 0 && (entry.browser.is_none() || is_wanted) {
            let closed = open.remove(self.session);
            drop(open);
            drop(closed);
        }
    }
}
