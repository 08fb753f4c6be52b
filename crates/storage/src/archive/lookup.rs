//! Looks objects up in the runs. Runs are opened on demand, the newest first, and a limited number is kept open: most
//! steps of the archive need only the newest few.

use super::Archive;
use super::index::IndexEntry;
use super::run::RunReader;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, ObjectKey};
use crate::limits::OPEN_RUNS;
use crate::manifest::RunMeta;
use std::collections::VecDeque;

/// The runs of an archive. An unreadable run is skipped: its content is missing, and commit numbers reveal the gap. Who would
/// conclude something from what is missing asks [`Lookup::must_be_certain`].
pub(crate) struct Lookup<'a> {
    archive: &'a Archive,
    /// As in the manifest, oldest first.
    listed: Vec<RunMeta>,
    /// Least recently used first.
    open: VecDeque<RunReader>,
    /// The numbers of the skipped runs.
    left_out: Vec<u64>,
    /// One of them that should be readable, and why it is not.
    lost: Option<(u64, Error)>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(archive: &'a Archive) -> Self {
        let listed = archive.state().runs;
        Self {
            archive,
            listed,
            open: VecDeque::new(),
            left_out: Vec::new(),
            lost: None,
        }
    }

    /// The runs in which no damage was found.
    pub(crate) fn intact(archive: &'a Archive) -> Self {
        let left_out = archive.state().damaged.into_iter().collect();
        Self {
            left_out,
            ..Self::new(archive)
        }
    }

    /// An error if a run was skipped because it cannot be read at the moment: what was found may be out of date.
    pub(crate) fn must_be_certain(&self) -> Result<()> {
        match &self.lost {
            Some((_, error)) if error.kind() == ErrorKind::Busy => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// An error if a run was skipped: what was found may lack something.
    pub(crate) fn must_have_read_all(&self) -> Result<()> {
        let lost = self.lost.as_ref();
        lost.map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Why a run was skipped; `None` if none was.
    pub(crate) fn into_lost(self) -> Option<Error> {
        self.lost.map(|(_, error)| error)
    }

    /// A run that was skipped, and why.
    pub(crate) fn into_lost_run(self) -> Option<(u64, Error)> {
        self.lost
    }

    /// The object's entry in the newest run that contains it.
    pub(crate) fn newest(&mut self, key: ObjectKey) -> Option<IndexEntry> {
        self.newest_part(key).map(|(_, index)| index)
    }

    /// The newest run that contains an object.
    pub(crate) fn newest_part(&mut self, key: ObjectKey) -> Option<(RunReader, IndexEntry)> {
        self.find(key, 1).pop()
    }

    /// The runs that contain an object, oldest first.
    pub(crate) fn all(&mut self, key: ObjectKey) -> Vec<(RunReader, IndexEntry)> {
        self.find(key, usize::MAX)
    }

    fn find(&mut self, key: ObjectKey, most: usize) -> Vec<(RunReader, IndexEntry)> {
        let mut found = Vec::new();
        let mut at = self.listed.len();
        while at > 0 && found.len() < most {
            at -= 1;
            let run = self.listed[at].clone();
            if self.left_out.contains(&run.number) {
                continue;
            }
            match self.find_in(&run, key) {
                Ok(section) => found.extend(section),
                Err(error) if self.archive.has(run.number) => {
                    tracing::error!(%error, "skipping an unreadable run of the archive");
                    self.left_out.push(run.number);
                    // One that may be readable later counts before one that is damaged.
                    if self.must_be_certain().is_ok() {
                        self.lost = Some((run.number, error));
                    }
                }
                // A merge has replaced it in the meantime.
                Err(_) => {
                    self.listed = self.archive.state().runs;
                    self.open.clear();
                    found.clear();
                    at = self.listed.len();
                }
            }
        }
        found.reverse();
        found
    }

    fn find_in(
        &mut self,
        run: &RunMeta,
        key: ObjectKey,
    ) -> Result<Option<(RunReader, IndexEntry)>> {
        let place = self.open.iter().position(|r| r.meta.number == run.number);
        let mut reader = match place.and_then(|place| self.open.remove(place)) {
            Some(reader) => reader,
            None => self.archive.reader(run)?,
        };
        let index = reader.find(key)?;
        let section = index.map(|index| (reader.clone(), index));
        self.open.push_back(reader);
        if self.open.len() > OPEN_RUNS {
            self.open.pop_front();
        }
        Ok(section)
    }
}

impl Archive {
    /// Returns whether it has anything of an object.
    pub(crate) fn has_history(&self, key: ObjectKey) -> bool {
        Lookup::new(self).newest(key).is_some()
    }

    /// Returns whether there is an object according to its newest entry.
    ///
    /// # Errors
    /// A run cannot be read at the moment.
    pub(crate) fn has_object(&self, key: ObjectKey) -> Result<bool> {
        let mut lookup = Lookup::new(self);
        let newest = lookup.newest(key);
        lookup.must_be_certain()?;
        Ok(newest.is_some_and(|index| index.newest.pages > 0))
    }

    /// The number of the newest commit of an object that is archived; 0 if there is none.
    ///
    /// # Errors
    /// A run cannot be read at the moment.
    pub(crate) fn newest_commit(&self, key: ObjectKey) -> Result<CommitNo> {
        let mut lookup = Lookup::new(self);
        let newest = lookup.newest(key);
        lookup.must_be_certain()?;
        Ok(newest.map_or(CommitNo(0), |index| index.newest.commit))
    }
}
