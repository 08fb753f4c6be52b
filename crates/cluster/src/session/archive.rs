//! The runs of a session.

use crate::{Ended, Lsn, Part, Run, Shard, State, Stored, Tenures};

/// One run is under way at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Archive {
    /// Own records before this position are in runs that are listed.
    archived: Lsn,
    /// The number of the last run that is listed.
    listed: u64,
    planned: u64,
    run: Option<Run>,
    /// It is in the store, or has no records, and may have been said.
    is_uploaded: bool,
    /// What readers are to be told of it. `None` if it has no records.
    stored: Option<Stored>,
}

impl Archive {
    /// Plans the next run, with what is durable up to a position. A shard that is closed belongs to it for as long as it is not given away.
    pub(super) fn plan(&mut self, tenures: &Tenures, until: Lsn) -> Option<Run> {
        let adopted = tenures
            .iter()
            .filter(|(_, tenure)| tenure.state != State::Adopting);
        let parts =
            adopted.flat_map(|(shard, tenure)| tenure.parts.iter().map(move |part| (shard, *part)));
        let parts: Vec<_> = parts.collect();
        if self.run.is_some() || (parts.is_empty() && until <= self.archived) {
            return None;
        }
        // Parts can be archived before the next of the session's own records is.
        let until = until.max(self.archived);
        self.planned += 1;
        self.is_uploaded = false;
        self.stored = None;
        self.run = Some(Run {
            number: self.planned,
            after: self.listed,
            parts,
            since: self.archived,
            until,
            tenancies: tenures.before(until),
        });
        self.run.clone()
    }

    pub(super) fn uploaded(&mut self, number: u64, stored: Option<Stored>) {
        let is_planned = self.run.as_ref().is_some_and(|run| run.number == number);
        if is_planned && !self.is_uploaded {
            self.is_uploaded = true;
            self.stored = stored;
        }
    }

    /// The run that is to be listed.
    pub(super) fn uploaded_run(&self) -> Option<(&Run, Option<&Stored>)> {
        let run = self.run.as_ref().filter(|_| self.is_uploaded)?;
        Some((run, self.stored.as_ref()))
    }

    /// Own records before this position are in runs that are listed.
    pub(super) fn archived(&self) -> Lsn {
        self.archived
    }

    /// A run is planned and not listed.
    pub(super) fn is_under_way(&self) -> bool {
        self.run.is_some()
    }

    /// The run is listed. Returns its inherited parts.
    pub(super) fn listed(&mut self) -> Vec<(Shard, Part)> {
        let run = self.run.take();
        run.map_or_else(Vec::new, |run| {
            self.archived = run.until;
            self.listed = run.number;
            run.parts
        })
    }

    /// Gives up the planned run, unless it may have been said.
    pub(super) fn abandon(&mut self, number: u64) {
        if !self.is_uploaded && self.run.as_ref().is_some_and(|run| run.number == number) {
            self.run = None;
        }
    }

    /// The run is given up.
    pub(super) fn give_up(&mut self) {
        self.run = None;
    }

    /// The lane is archived up to this position by this run, which may be the one that is under way.
    ///
    /// # Errors
    /// The database has lost a run that it had listed.
    pub(super) fn is_at(&mut self, archived: Lsn, listed: u64) -> Result<(), Ended> {
        if archived < self.archived || listed < self.listed {
            return Err(Ended::LostCommits);
        }
        self.archived = archived;
        self.listed = listed;
        Ok(())
    }

    /// The number of the last run that is listed.
    pub(super) fn last_listed(&self) -> u64 {
        self.listed
    }
}
