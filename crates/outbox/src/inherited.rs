//! Messages that a dormant outbox has inherited.
//!
//! While its object is dormant an outbox accepts messages and delivers none. When the object is activated as a copy, the
//! unfinished messages are dropped, because the original delivers them; otherwise they are delivered, under the same
//! keys.

use abide::{Activation, Result};

use super::inner::Inner;

impl Inner {
    /// The object is activated, and starts anew afterwards.
    pub(super) fn activated(&self, how: Activation) -> Result<()> {
        if how == Activation::Continue {
            return Ok(());
        }
        let sql = &self.rows.sql;
        let count = "SELECT queued + sending FROM outbox_meta";
        let messages: i64 = sql.exec(count, ())?.one()?;
        sql.exec_on_all(
            "DELETE FROM outbox_payloads WHERE message IN (SELECT id FROM outbox_messages WHERE finished_at IS NULL);
             DELETE FROM outbox_history WHERE message IN (SELECT id FROM outbox_messages WHERE finished_at IS NULL);
             DELETE FROM outbox_messages WHERE finished_at IS NULL;
             DELETE FROM outbox_callbacks;
             UPDATE outbox_destinations SET due_at = NULL;
             UPDATE outbox_meta SET queued = 0, sending = 0, failing = 0, go_on = 0",
            (),
        )?;
        self.rows.changes.are_lost();
        let cancel = "UPDATE outbox_fan_outs SET status = 'canceled', updated_at = ?1 WHERE status = 'running' RETURNING id";
        let fan_outs: Vec<i64> = sql.exec(cancel, (self.now(),))?.all()?;
        if messages > 0 || !fan_outs.is_empty() {
            tracing::warn!(
                class = self.ctx.class(), object = %self.ctx.id(), messages, fan_outs = fan_outs.len(),
                "a copied outbox has dropped the unfinished messages and fan-outs of its original"
            );
        }
        Ok(())
    }
}
