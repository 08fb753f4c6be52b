//! One pass: what was found different before, and then one slice.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use abide_history::{Download, Error, Manifest, verify_run};
use abide_storage::{Comparison, CopiedArchive, ErrorKind, Fingerprint, NamespaceNo, ObjectKey};
use tokio::time::sleep;

use super::{
    Job,
    notes::{Difference, Subject},
    now,
};
use crate::{
    history::{
        HistoryContent,
        remote::{RemoteRuns, wait},
    },
    limits::{
        COPY_FRESH, COPY_PATIENCE, MAX_DIFFERENCES, PENDING_PAGES, PENDING_PROOFS, PROOF_PAUSE,
        PROOF_SLICES, STATUS_POLL,
    },
};

/// How often a difference is looked at again before it is told.
const LOOKS: u32 = 2;

/// Objects that are listed at once.
const LISTED: usize = 1000;

/// See the module.
pub(super) struct Pass<'a> {
    job: &'a Job,
    slice: u32,
    copy: Option<Copy>,
    /// What the newest copy does not have yet.
    pending: Vec<Fingerprint>,
    pub(super) differences: Vec<Difference>,
    /// The slice has a difference.
    pub(super) has_found: bool,
    /// Objects that are the same.
    pub(super) proven: u64,
    /// Objects that could not be compared: they are quarantined, were written all the time, or the copy says that it lacks them.
    pub(super) left_out: u64,
}

/// A manifest that was read back from the store.
struct Copy {
    read: Instant,
    manifest: Manifest,
    runs: RemoteRuns,
    archive: CopiedArchive,
}

/// Why a pass has ended early.
#[derive(Debug)]
pub(super) enum End {
    /// It was told to.
    Stopped,
    /// Something cannot be done now.
    NotNow(String),
}

/// How an object compares.
enum Found {
    Same,
    NotYet,
    Unknown,
    Wrong(String),
}

impl<'a> Pass<'a> {
    pub(super) fn new(job: &'a Job, differences: Vec<Difference>, slice: u32) -> Self {
        Self {
            job,
            slice,
            copy: None,
            pending: Vec::new(),
            differences,
            has_found: false,
            proven: 0,
            left_out: 0,
        }
    }

    pub(super) fn run(&mut self) -> Result<(), End> {
        self.must_be_possible()?;
        self.job.ranges.forget();
        self.look_again_at_differences()?;
        for byte in bytes_of(self.slice) {
            for key in self.objects(byte)? {
                self.prove(key)?;
                self.pause()?;
            }
        }
        self.settle()?;
        self.prove_runs()
    }

    /// Not while the store cannot be used, or objects may lack their files.
    fn must_be_possible(&self) -> Result<(), End> {
        let status = self.job.status.status();
        let failing = status.failing.or(status.not_shipping);
        if let Some(failing) = failing {
            return Err(End::NotNow(failing.error));
        }
        if let Some(why) = status.superseded {
            return Err(End::NotNow(why));
        }
        if self.job.store.stats().hydration_parts_left > 0 {
            return Err(End::NotNow("the restore has not completed".to_owned()));
        }
        Ok(())
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        wait(&self.job.threads, &self.job.stop, work).ok_or(End::Stopped)
    }

    /// Lets others work.
    fn pause(&self) -> Result<(), End> {
        self.wait(async { sleep(PROOF_PAUSE).await })
    }

    /// The newest copy, read back from the store unless that was a moment ago.
    fn newest(&mut self) -> Result<Result<&mut Copy, String>, End> {
        let published = self.job.status.status().published;
        let number = published.map(|published| published.number);
        let number = number.ok_or_else(|| End::NotNow("there is no copy yet".to_owned()))?;
        let is_recent = |copy: &Copy| copy.read.elapsed() < COPY_FRESH;
        let read = self.copy.take().filter(is_recent);
        let copy = match read {
            Some(copy) => copy,
            None => match self.read(number)? {
                Ok(copy) => copy,
                Err(damage) => return Ok(Err(damage)),
            },
        };
        Ok(Ok(self.copy.insert(copy)))
    }

    fn read(&self, number: u64) -> Result<Result<Copy, String>, End> {
        let job = self.job;
        let found = self.wait(Download::newer_than(&job.copies, number - 1))?;
        let manifest = match found {
            Ok(Some(download)) => download.manifest().clone(),
            Ok(None) => return Err(End::NotNow(format!("manifest {number} is missing"))),
            Err(error) => return damage(&error).map(Err),
        };
        let content = manifest.content.as_deref().unwrap_or_default();
        let content = match HistoryContent::decode(content) {
            Ok(content) => content,
            Err(error) => return Ok(Err(error)),
        };
        let (ranges, threads) = (Arc::clone(&job.ranges), job.threads.clone());
        let runs = RemoteRuns::new(&job.dir, &manifest, ranges, threads, job.stop.clone());
        let opened = job
            .store
            .open_copy(&runs, &job.dir, content.manifest.as_bytes());
        match opened {
            Ok(archive) => Ok(Ok(Copy {
                read: Instant::now(),
                manifest,
                runs,
                archive,
            })),
            Err(error) => self.judge(&runs, &error).map(Err),
        }
    }

    /// What an error says of the copy; or that it says nothing.
    fn judge(&self, runs: &RemoteRuns, error: &abide_storage::Error) -> Result<String, End> {
        if *self.job.stop.borrow() {
            return Err(End::Stopped);
        }
        match error.kind() {
            ErrorKind::Damaged | ErrorKind::Refused => {
                Ok(runs.take_damage().unwrap_or_else(|| error.to_string()))
            }
            _ => Err(End::NotNow(error.to_string())),
        }
    }

    /// The objects of the node and of the copy whose ids begin with a byte.
    fn objects(&mut self, byte: u8) -> Result<BTreeSet<ObjectKey>, End> {
        let mut keys = BTreeSet::new();
        for (namespace, _) in self.job.store.namespaces() {
            self.stored(namespace, byte, &mut keys)?;
        }
        let of = Subject::Lists { slice: self.slice };
        let mut how = None;
        for _ in 0..LOOKS {
            let listed = match self.newest()? {
                Ok(copy) => match copy.archive.objects(byte) {
                    Ok(listed) => Ok(listed),
                    Err(error) => {
                        let runs = copy.runs.clone();
                        Err(self.judge(&runs, &error)?)
                    }
                },
                Err(damage) => Err(damage),
            };
            match listed {
                Ok(listed) => {
                    keys.extend(listed);
                    return Ok(keys);
                }
                Err(damage) => how = Some(damage),
            }
            self.read_again();
        }
        if let Some(how) = how {
            self.differs(of, how);
        }
        Ok(keys)
    }

    /// The objects of the node.
    fn stored(
        &self,
        namespace: NamespaceNo,
        byte: u8,
        keys: &mut BTreeSet<ObjectKey>,
    ) -> Result<(), End> {
        let mut after = byte.checked_sub(1).map(|before| {
            let mut id = [u8::MAX; 32];
            id[0] = before;
            id
        });
        loop {
            let listed = self.job.store.objects_after(namespace, after, LISTED);
            let listed = listed.map_err(|error| End::NotNow(error.to_string()))?;
            let count = listed.len();
            after = listed.last().map(|key| key.id);
            keys.extend(listed.into_iter().filter(|key| key.id[0] == byte));
            if count < LISTED || after.is_none_or(|after| after[0] > byte) {
                return Ok(());
            }
            self.pause()?;
        }
    }

    /// Forgets what was read.
    fn read_again(&mut self) {
        self.job.ranges.forget();
        self.copy = None;
    }

    fn prove(&mut self, key: ObjectKey) -> Result<(), End> {
        let Some(of) = self.fingerprint(key) else {
            return Ok(());
        };
        match self.look(&of)? {
            Found::NotYet => {
                self.pending.push(of);
                let pages: u64 = self.pending.iter().map(|of| u64::from(of.pages())).sum();
                if self.pending.len() >= PENDING_PROOFS || pages >= PENDING_PAGES {
                    self.settle()?;
                }
                Ok(())
            }
            found => self.settle_one(key, &found),
        }
    }

    fn fingerprint(&mut self, key: ObjectKey) -> Option<Fingerprint> {
        let taken = self.job.store.fingerprint(key);
        let taken = taken.unwrap_or_else(|error| {
            tracing::warn!(object = %key, %error, "an object cannot be read, and so not be compared with its copy");
            None
        });
        self.left_out += u64::from(taken.is_none());
        taken
    }

    fn look(&mut self, of: &Fingerprint) -> Result<Found, End> {
        let copy = match self.newest()? {
            Ok(copy) => copy,
            Err(damage) => return Ok(Found::Wrong(damage)),
        };
        let (number, commit) = (copy.manifest.number, of.bookmark());
        let compared = match copy.archive.compare(of) {
            Ok(compared) => compared,
            Err(error) => {
                let runs = copy.runs.clone();
                return self.judge(&runs, &error).map(Found::Wrong);
            }
        };
        Ok(match compared {
            Comparison::Same => Found::Same,
            Comparison::NotYet => Found::NotYet,
            Comparison::Missing(_) if of.pages() == 0 => {
                Found::Wrong(format!("manifest {number} has it, and the node does not"))
            }
            Comparison::Missing(why) => Found::Wrong(format!(
                "manifest {number} does not have its state at {commit} ({why})"
            )),
            Comparison::Differs {
                sizes: [copied, size],
                count,
                pages,
            } => Found::Wrong(format!(
                "in manifest {number}, {count} of {size} pages differ at {commit}: {pages:?}, and the copy has {copied} pages"
            )),
            _ => Found::Unknown,
        })
    }

    /// Compares what the copies did not have yet.
    fn settle(&mut self) -> Result<(), End> {
        while !self.pending.is_empty() {
            self.await_newer()?;
            for of in std::mem::take(&mut self.pending) {
                match self.look(&of)? {
                    Found::NotYet => self.pending.push(of),
                    found => self.settle_one(of.key(), &found)?,
                }
            }
        }
        Ok(())
    }

    /// Waits until there is a newer copy than the one that was read.
    fn await_newer(&mut self) -> Result<(), End> {
        let read = self.copy.as_ref().map(|copy| copy.manifest.number);
        let begun = Instant::now();
        loop {
            let published = self.job.status.status().published;
            if published.map(|published| published.number) > read {
                self.copy = None;
                return Ok(());
            }
            self.must_be_possible()?;
            if begun.elapsed() > COPY_PATIENCE {
                return Err(End::NotNow("there is no newer copy".to_owned()));
            }
            self.wait(async { sleep(STATUS_POLL).await })?;
        }
    }

    fn settle_one(&mut self, key: ObjectKey, found: &Found) -> Result<(), End> {
        let Some(of) = self.subject(key) else {
            return Ok(()); // its class was deleted
        };
        match found {
            Found::Same => self.is_right(&of),
            Found::NotYet | Found::Unknown => self.left_out += 1,
            Found::Wrong(_) => self.look_again(key, of)?,
        }
        Ok(())
    }

    fn subject(&self, key: ObjectKey) -> Option<Subject> {
        let mut classes = self.job.store.namespaces().into_iter();
        let (_, class) = classes.find(|(number, _)| *number == key.namespace)?;
        let id = hex::encode(key.id);
        Some(Subject::Object { class, id })
    }

    /// Looks at an object that differs anew: everything is read again.
    fn look_again(&mut self, key: ObjectKey, subject: Subject) -> Result<(), End> {
        let mut how = None;
        for _ in 0..LOOKS {
            self.read_again();
            let Some(of) = self.fingerprint(key) else {
                return Ok(());
            };
            let found = loop {
                match self.look(&of)? {
                    Found::NotYet => self.await_newer()?,
                    found => break found,
                }
            };
            match found {
                Found::Wrong(damage) => how = Some(damage),
                found => return self.settle_one(key, &found),
            }
        }
        // Its class may have been deleted meanwhile.
        if let Some(how) = how.filter(|_| self.subject(key).is_some()) {
            self.differs(subject, how);
        }
        Ok(())
    }

    /// Reads the runs of this slice as a whole.
    fn prove_runs(&mut self) -> Result<(), End> {
        let runs = match self.newest()? {
            Ok(copy) => copy.manifest.runs.clone(),
            Err(_) => return Ok(()), // it is told
        };
        let slice = u64::from(self.slice);
        for run in runs {
            if run.number % u64::from(PROOF_SLICES) == slice {
                self.prove_run(&run.key)?;
                self.pause()?;
            }
        }
        Ok(())
    }

    /// Reads a run as a whole, if the newest manifest lists it.
    fn prove_run(&mut self, key: &str) -> Result<(), End> {
        let of = Subject::Run {
            key: key.to_owned(),
        };
        let mut how = None;
        for _ in 0..LOOKS {
            let run = match self.newest()? {
                Ok(copy) => copy
                    .manifest
                    .runs
                    .iter()
                    .find(|run| run.key == key)
                    .cloned(),
                Err(_) => return Ok(()),
            };
            let Some(run) = run else {
                self.forget(&of);
                return Ok(()); // it was replaced
            };
            match self.wait(verify_run(&self.job.copies, &run, |_| {}))? {
                Ok(()) => {
                    self.forget(&of);
                    return Ok(());
                }
                Err(error) => how = Some(damage(&error)?),
            }
            // Perhaps all of the store is gone for a while.
            self.read_again();
        }
        if let Some(how) = how {
            self.differs(of, how);
        }
        Ok(())
    }

    /// What was different may be right by now.
    fn look_again_at_differences(&mut self) -> Result<(), End> {
        let slice = self.slice;
        for difference in self.differences.clone() {
            match &difference.of {
                Subject::Run { key } => self.prove_run(key)?,
                Subject::Lists { slice: of } => {
                    self.slice = *of;
                    self.has_found = false;
                    for byte in bytes_of(*of) {
                        self.objects(byte)?;
                    }
                    self.slice = slice;
                    if !self.has_found {
                        self.forget(&difference.of);
                    }
                }
                Subject::Object { class, id } => match self.key(class, id) {
                    Some(key) => {
                        self.prove(key)?;
                        self.settle()?;
                    }
                    None => self.forget(&difference.of),
                },
            }
        }
        // They are of other slices.
        self.has_found = false;
        Ok(())
    }

    fn key(&self, class: &str, id: &str) -> Option<ObjectKey> {
        let mut classes = self.job.store.namespaces().into_iter();
        let (namespace, _) = classes.find(|(_, name)| name == class)?;
        let mut key = ObjectKey {
            namespace,
            id: [0; 32],
        };
        hex::decode_to_slice(id, &mut key.id).ok()?;
        Some(key)
    }

    fn is_right(&mut self, of: &Subject) {
        self.proven += 1;
        self.job.proven.fetch_add(1, Ordering::Relaxed);
        self.forget(of);
    }

    fn forget(&mut self, of: &Subject) {
        self.differences.retain(|known| known.of != *of);
    }

    fn differs(&mut self, of: Subject, how: String) {
        self.has_found = true;
        let place = self.differences.iter().position(|known| known.of == of);
        let found = place.map_or_else(now, |place| self.differences[place].found);
        let difference = Difference { of, how, found };
        tracing::error!(
            url = %self.job.copies.location(),
            "the copy in the store of archive.url differs from this node: {difference}. `abide verify` tells whether the node's own data \
             are whole. If they are, do not rely on that copy: set archive.url to an empty prefix, so that everything is copied anew, \
             and keep the old one until the new one is complete"
        );
        match place {
            Some(place) => self.differences[place] = difference,
            None if self.differences.len() < MAX_DIFFERENCES => self.differences.push(difference),
            None => {}
        }
    }
}

/// The first bytes of the ids of a slice.
fn bytes_of(slice: u32) -> impl Iterator<Item = u8> {
    (0..=u8::MAX).filter(move |byte| u32::from(*byte) * PROOF_SLICES / 256 == slice)
}

/// What an error of the store says of the copy; or that it says nothing.
fn damage(error: &Error) -> Result<String, End> {
    match error {
        Error::Missing { .. } | Error::Damaged { .. } => Ok(error.to_string()),
        _ => Err(End::NotNow(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_in_one_slice() {
        let all: Vec<u8> = (0..PROOF_SLICES).flat_map(bytes_of).collect();
        assert_eq!(all, (0..=u8::MAX).collect::<Vec<_>>());
        for slice in 0..PROOF_SLICES {
            assert!((8..=9).contains(&bytes_of(slice).count()));
        }
    }
}
