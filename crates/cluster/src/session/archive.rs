//! The runs of a session.

use crate::{Ended, Lsn, Part, Run, Shard, State, Tenures};

/// One run is under way at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Archive {
    /// Own records before this position are in runs that are listed.
    archived: Lsn,
    /// The number of the last run that is listed.
    listed: u64,
    planned: u64,
    run: Option<Run>,
    is_uploaded: bool,
}

impl Archive {
    /// Plans the next run, with all that is durable. A shard that is closed belongs to it for as long as it is not given away.
    pub(super) fn plan(&mut self, tenures: &Tenures, durable: Lsn) -> Option<Run> {
        let adopted = tenures
            .iter()
            .filter(|(_, tenure)| tenure.state != State::Adopting);
        let parts =
            adopted.flat_map(|(shard, tenure)| tenure.parts.iter().map(move |part| (shard, *part)));
        let parts: Vec<_> = parts.collect();
        if self.run.is_some() || (parts.is_empty() && durable == self.archived) {
            return None;
        }
        self.planned += 1;
        self.is_uploaded = false;
        self.run = Some(Run {
            number: self.planned,
            after: self.listed,
            parts,
            since: self.archived,
            until: durable,
            tenancies: tenures.before(durable),
        });
        self.run.clone()
    }

    pub(super) fn uploaded(&mut self, number: u64) {
        self.is_uploaded |= self.run.as_ref().is_some_and(|run| run.number == number);
    }

    /// The run that is to be listed.
    pub(super) fn uploaded_run(&self) -> Option<&Run> {
        self.run.as_ref().filter(|_| self.is_uploaded)
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

    /// The run is given up.
    pub(super) fn give_up(&mut self) {
        self.run = None;
    }

    /// The lane is archived up to this position by this run. A run that was given up may be it.
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
