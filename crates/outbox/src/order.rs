//! Ordering keys: of the messages with one key only the first may be sent; the others are blocked.

use abide::Result;

use super::{BehindDeadLetter, rows::Rows, turns};

/// A message that may be sent: its destination, origin, time, whether it must be tried alone, its priority, and whether
/// it was tried before.
type Freed = (String, Option<String>, i64, bool, usize, bool);

impl Rows {
    /// If messages no longer have to wait for dead letters, unblocks those that wait.
    pub(super) fn apply_order(&self) -> Result<()> {
        let go_on = self.options.behind_dead_letter == BehindDeadLetter::GoOn;
        let before: bool = self.sql.exec("SELECT go_on FROM outbox_meta", ())?.one()?;
        if go_on == before {
            return Ok(());
        }
        self.sql
            .exec("UPDATE outbox_meta SET go_on = ?1", (go_on,))?;
        if go_on {
            let keys: Vec<String> = self
                .sql
                .exec_on_all(
                    "SELECT DISTINCT ordering_key FROM outbox_dead_letters WHERE ordering_key IS NOT NULL",
                    (),
                )?
                .all()?;
            for key in keys {
                self.unblock(Some(&key))?;
            }
        }
        Ok(())
    }

    /// True if an earlier message blocks a new one with this ordering key.
    pub(super) fn is_key_busy(&self, key: &str) -> Result<bool> {
        let active: bool = self
            .sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM outbox_messages WHERE ordering_key = ?1 AND finished_at IS NULL)",
                (key,),
            )?
            .one()?;
        Ok(active || self.first_dead(key)?.is_some())
    }

    /// The first dead letter that messages with its ordering key have to wait for.
    pub(super) fn first_dead(&self, key: &str) -> Result<Option<i64>> {
        match self.options.behind_dead_letter {
            BehindDeadLetter::GoOn => Ok(None),
            BehindDeadLetter::Wait => self
                .sql
                .exec(
                    "SELECT min(id) FROM outbox_dead_letters WHERE ordering_key = ?1",
                    (key,),
                )?
                .one(),
        }
    }

    /// Unblocks the first message with this ordering key, if nothing blocks it any more.
    pub(super) fn unblock(&self, key: Option<&str>) -> Result<()> {
        let Some(key) = key else {
            return Ok(());
        };
        let first: Option<i64> = self
            .sql
            .exec(
                "SELECT min(id) FROM outbox_messages
                 WHERE ordering_key = ?1 AND blocked = 1 AND finished_at IS NULL",
                (key,),
            )?
            .one()?;
        let Some(id) = first else {
            return Ok(());
        };
        // A message that was requeued after others waits until they are done.
        let another_goes: bool = self
            .sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM outbox_messages
                     WHERE ordering_key = ?1 AND blocked = 0 AND finished_at IS NULL)",
                (key,),
            )?
            .one()?;
        if another_goes || self.first_dead(key)?.is_some_and(|dead| dead < id) {
            return Ok(());
        }
        let (to, origin, at, alone, priority, again): Freed = self
            .sql
            .exec(
                "UPDATE outbox_messages SET blocked = 0 WHERE id = ?1
                 RETURNING destination, origin, next_at, alone, priority, attempts > 0",
                (id,),
            )?
            .one()?;
        self.changes.add(id);
        if alone {
            self.agenda_changes();
        } else {
            self.enters(&to, turns::line(priority, again), (at, id));
        }
        self.look_at(&to, origin.as_deref(), at)
    }
}
