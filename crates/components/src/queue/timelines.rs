//! What a restore and a fork of a shard mean to its messages.

use abide::{Activation, Result, Timeline};

use super::inner::Inner;

impl Inner {
    /// The shard is on a new timeline: numbers of messages that were sent in the undone future are not used again, since
    /// consumers may remember their ids.
    pub(super) fn begin(&self, timeline: &Timeline) -> Result<()> {
        let sql = &self.rows.sql;
        let newest =
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'queue_messages'";
        let newest: i64 = sql.exec(newest, ())?.one()?;
        if newest < timeline.floor() {
            // A removed row moves the numbers of the table on.
            let insert =
                "INSERT INTO queue_messages (id, due_at, bytes, sent_at) VALUES (?1, 0, 0, 0)";
            sql.exec(insert, (timeline.floor(),))?;
            let delete = "DELETE FROM queue_messages WHERE id = ?1";
            sql.exec(delete, (timeline.floor(),))?;
        }
        Ok(())
    }

    /// The shard is activated, and starts anew afterwards. A copy drops the messages that its original delivers.
    pub(super) fn activated(&self, how: Activation) -> Result<()> {
        if how == Activation::Continue {
            return Ok(());
        }
        let count = "SELECT count(*), coalesce(sum(bytes), 0) FROM queue_messages";
        let sql = &self.rows.sql;
        let (messages, bytes): (i64, i64) = sql.exec(count, ())?.one()?;
        sql.exec(
            "DELETE FROM queue_bodies WHERE message IN (SELECT id FROM queue_messages);
             DELETE FROM queue_messages",
            (),
        )?;
        self.rows.change_meta(|meta| {
            meta.messages -= messages;
            meta.bytes -= bytes;
        })?;
        if messages > 0 {
            tracing::warn!(
                queue = self.rows.queue,
                shard = self.rows.shard,
                messages,
                "a copied shard has dropped the messages of its original"
            );
        }
        Ok(())
    }
}
