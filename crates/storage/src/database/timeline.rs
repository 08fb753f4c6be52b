//! The object's present timeline: a row that the restoring or forking commit itself writes.

use super::ObjectDb;
use crate::bookmark::Bookmark;
use crate::error::{Error, Result};
use crate::timeline::{Afterwards, StoredCause, TimelineRow, Untold};

impl ObjectDb {
    /// The object's present timeline.
    pub fn timeline(&self) -> Result<TimelineRow> {
        Ok(self.identity()?.1)
    }

    /// Records, in the current transaction, that the object's code has been told of its timeline.
    pub fn timeline_told(&self) -> Result<()> {
        let row = self.timeline()?;
        self.write_timeline(&TimelineRow {
            untold: None,
            ..row
        })
    }

    /// Counts a start in order to tell the object's code of its timeline, in the current transaction. The next one is
    /// due at `next`, unless this one succeeds.
    pub fn timeline_attempt(&self, next: i64) -> Result<()> {
        let row = self.timeline()?;
        let attempts = row.untold.map_or(0, |untold| untold.attempts);
        self.write_timeline(&TimelineRow {
            untold: Some(Untold {
                attempts: attempts.saturating_add(1),
                due: next,
            }),
            ..row
        })
    }

    /// Ends the object's dormancy, in the current transaction. Its alarms go off again, unless they are removed.
    pub fn activate(&self, remove_alarms: bool) -> Result<()> {
        let row = self.timeline()?;
        if remove_alarms {
            self.clear_alarms()?;
        }
        self.write_timeline(&TimelineRow {
            dormant: false,
            ..row
        })
    }

    /// Begins a timeline with a restore, in the transaction that restores. The pages of the restored state are staged;
    /// `from` is the state that is left.
    pub(super) fn begin_restored(
        &self,
        from: Bookmark,
        cause: StoredCause,
        afterwards: Afterwards,
    ) -> Result<()> {
        let restored_is_dormant = self.timeline()?.dormant;
        self.write_timeline(&TimelineRow {
            id: self.file.timeline_after(from),
            cause,
            since: Some(self.file.unix_millis()),
            untold: Some(Untold::default()),
            dormant: afterwards == Afterwards::Dormant || restored_is_dormant,
        })
    }

    /// Begins the timeline of a fork, in the transaction that forks.
    pub(crate) fn begin_forked(&self, origin: [u8; 32], bookmark: Bookmark) -> Result<()> {
        self.write_timeline(&TimelineRow {
            // It is later than all that the copied state remembers.
            id: self.file.first_timeline(),
            cause: StoredCause::Forked { origin, bookmark },
            since: Some(self.file.unix_millis()),
            untold: Some(Untold::default()),
            dormant: true,
        })
    }

    /// Begins the timeline of an imported object, in the transaction that imports.
    pub(super) fn begin_imported(
        &self,
        source: [u8; 32],
        afterwards: Afterwards,
        dormant: bool,
    ) -> Result<()> {
        let id = self.file.first_timeline();
        let replaces = afterwards == Afterwards::Act;
        self.write_timeline(&TimelineRow {
            id,
            cause: StoredCause::Imported { source, replaces },
            since: Some(self.file.unix_millis()),
            untold: Some(Untold::default()),
            dormant,
        })
    }

    fn write_timeline(&self, row: &TimelineRow) -> Result<()> {
        let text = serde_json::to_string(row)
            .map_err(|error| Error::input(format!("encoding the timeline: {error}")))?;
        self.begin()?;
        let upsert = "INSERT INTO _abide_meta (key, value) VALUES ('timeline', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value/*abide*/";
        self.internal(upsert, [text])?;
        // Whether its alarms go off depends on it.
        self.reread_alarms();
        Ok(())
    }
}
