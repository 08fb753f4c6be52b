//! Runs of history that stores share: each has the records of tenures, and is listed by all stores in the same order.
//!
//! A run has what earlier owners have left of a shard before the owner's own records of it, and a run that is listed later has later
//! records. So the order of the list is the order of each object's commits, by all of its owners. A record has the generation of its
//! tenure, and its position in the log in which it was.
//!
//! An object whose history has outgrown it gets a snapshot of its state with the next run, as in the archive of a store that is alone.
//! Adjacent runs are [merged](super::merging). The runs have the only states of objects that no log has: nothing of them is given up.

use super::Inherited;
use crate::alarm_entry::AlarmEntry;
use crate::archive::archiver::COMPRESSION;
use crate::archive::entry::Head;
use crate::archive::gathered::Gathered;
use crate::archive::image::Image;
use crate::archive::index::{IndexEntry, KnownAlarm};
use crate::archive::lookup::Lookup;
use crate::archive::run::RunWriter;
use crate::archive::snapshot;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Generation, Life, Lsn, ObjectKey, Position, Shard};
use crate::manifest::{ArchiveState, MOST_PLACES, RunMeta};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A run that a store has written and no store lists yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenRun {
    /// What [`SharedRun::about`] is to be.
    pub about: String,
    /// Its file, which is durable. The caller copies it, and then removes it.
    pub path: PathBuf,
}

/// A run that all stores list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the caller builds it")]
pub struct SharedRun {
    /// What [`WrittenRun::about`] was.
    pub about: String,
    /// Where it is, for [`RemoteRuns::open`](crate::RemoteRuns::open).
    pub place: String,
    /// Its place in the list, at most 2⁶².
    pub first: u64,
    /// The same, or the last one of the places that it has: a run that was merged from others has their places, and they are not listed
    /// any more.
    pub last: u64,
}

/// What a store says of a run that it has written.
#[derive(Serialize, Deserialize)]
struct Description {
    #[serde(flatten)]
    meta: RunMeta,
    /// The unique keys of all namespaces, by their numbers.
    namespaces: Vec<String>,
}

/// The records of tenures, by object, of which each continues the one before.
#[derive(Default)]
struct Records {
    gathered: Gathered,
    /// The newest commit of each object, and whether it has ended the object.
    newest: BTreeMap<ObjectKey, (CommitNo, bool)>,
    generations: BTreeMap<Shard, u32>,
}

impl Records {
    fn add_tenure(&mut self, shard: Shard, tenure: &Inherited) -> Result<()> {
        let before = self.generations.insert(shard, tenure.generation);
        if before >= Some(tenure.generation) {
            return Err(Error::input(format!(
                "the generations of shard {} do not rise: give its tenures from the oldest to the newest",
                shard.get()
            )));
        }
        let generation = Generation(tenure.generation);
        tenure.transactions(shard, |transaction| {
            let Some((first, _)) = transaction.records.first() else {
                return Ok(());
            };
            let before = self
                .newest
                .insert(first.key, (first.commit, first.life == Life::Ends));
            let continues = match before {
                None => true,
                Some((_, has_ended)) if has_ended => first.life == Life::Begins,
                Some((commit, _)) => first.life != Life::Begins && first.commit == commit.next(),
            };
            if !continues {
                return Err(gap(first.key));
            }
            let position = Position::at(generation, transaction.end);
            self.gathered.add(transaction.records, position);
            Ok(())
        })
    }
}

impl Engine {
    /// See [`crate::Store::write_run`].
    pub(crate) fn write_shared_run(
        &self,
        number: u64,
        tenures: &[(Shard, Inherited)],
    ) -> Result<Option<WrittenRun>> {
        self.must_have_shared_runs("write a run")?;
        must_be_number(number)?;
        let mut records = Records::default();
        for (shard, tenure) in tenures {
            self.learn_namespaces(tenure.log.namespaces())?;
            records.add_tenure(*shard, tenure)?;
        }
        let mut gathered = records.gathered;
        if gathered.bytes() == 0 {
            return Ok(None);
        }
        gathered.sort();
        let meta = RunMeta::of_log(number, 0, 0);
        let mut writer = self.archive.create_run(meta, COMPRESSION)?;
        let mut older = Lookup::new(&self.archive);
        for places in gathered.objects() {
            let before = Cell::new(None);
            let left = gathered.write_object(
                places,
                Lsn::ZERO,
                |key| {
                    before.set(older.newest(key));
                    older.must_have_read_all()?;
                    Ok(before.get())
                },
                |head, _| Err(replaced(head.key)),
                |last, writer| self.add_snapshot(before.get(), &gathered, places, last, writer),
                &mut writer,
            )?;
            if !left.is_complete {
                let key = places.first().map(|(key, _)| *key);
                return Err(key.map_or_else(|| Error::damaged("an empty object"), gap));
            }
        }
        self.finish_shared_run(writer).map(Some)
    }

    /// Ends a run, and describes it.
    pub(super) fn finish_shared_run(&self, writer: RunWriter) -> Result<WrittenRun> {
        let description = Description {
            meta: writer.finish()?,
            namespaces: self.shared.catalog.current().namespaces.clone(),
        };
        let file = RunMeta::file_name(description.meta.number);
        Ok(WrittenRun {
            path: self.archive.dir().join(file),
            about: serde_json::to_string(&description)
                .map_err(|error| Error::io("describing a run", &error.into()))?,
        })
    }

    /// Adds an object's state after its last entry. Returns false if the state before its first cannot be had now: a later run adds one.
    fn add_snapshot(
        &self,
        before: Option<IndexEntry>,
        gathered: &Gathered,
        places: &[(ObjectKey, usize)],
        last: &Head,
        writer: &mut RunWriter,
    ) -> Result<bool> {
        let image = match self.image_after(before, gathered, places) {
            Ok(image) => {
                image.filter(|image| image.at().is_some_and(|at| at.commit == last.commit))
            }
            Err(error) => {
                tracing::warn!(object = %last.key, %error, "a run has no snapshot of an object, whose history is read slowly until one has");
                None
            }
        };
        let Some(image) = image else {
            return Ok(false);
        };
        snapshot::add(writer, *last, |page_no| image.page(page_no))?;
        Ok(true)
    }

    /// The state of an object that the runs leave, as of its newest entry there, after further entries. `None` if they do not have it whole.
    fn image_after(
        &self,
        newest: Option<IndexEntry>,
        gathered: &Gathered,
        places: &[(ObjectKey, usize)],
    ) -> Result<Option<Image>> {
        let image = match newest.filter(|of| of.newest.pages > 0) {
            Some(newest) => self.archive.newest_image(&newest)?,
            None => Some(self.archive.new_image()),
        };
        let Some(mut image) = image else {
            return Ok(None);
        };
        for (_, place) in places {
            image.apply(&gathered.entry(*place)?)?;
        }
        Ok(Some(image))
    }

    /// See [`crate::Store::list_runs`].
    pub(crate) fn list_shared_runs(&self, runs: &[SharedRun]) -> Result<()> {
        self.must_have_shared_runs("list runs")?;
        let read = runs.iter().map(|run| {
            serde_json::from_str(&run.about).map_err(|error| {
                Error::damaged(format!("a run at {} is not described: {error}", run.place))
            })
        });
        let described: Vec<Description> = read.collect::<Result<_>>()?;
        for description in &described {
            self.learn_namespaces(&description.namespaces)?;
        }
        for run in runs {
            must_be_number(run.last)?;
        }
        self.archive.publish(|state| {
            for (Description { meta, .. }, run) in described.into_iter().zip(runs) {
                list(state, meta, run);
            }
        })
    }

    /// The alarms that the runs have of these shards. Each has an entry.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn archived_alarms(
        &self,
        shards: impl IntoIterator<Item = Shard>,
    ) -> Result<BTreeMap<Shard, BTreeMap<ObjectKey, AlarmEntry>>> {
        let mut alarms: BTreeMap<_, BTreeMap<_, _>> = shards
            .into_iter()
            .map(|shard| (shard, BTreeMap::new()))
            .collect();
        let mut newest = self.archive.all_newest_entries()?;
        let bytes: BTreeSet<u8> = alarms.keys().map(|shard| shard.first_byte()).collect();
        for byte in bytes {
            newest.skip_to(byte);
            let found = newest.with_first_byte(byte).into_iter();
            let set = found.filter_map(|(key, IndexEntry { newest, .. })| match newest.alarm {
                KnownAlarm::Set(entry) if newest.pages > 0 => Some((key, entry)),
                _ => None,
            });
            for (key, entry) in set {
                if let Some(of_shard) = alarms.get_mut(&key.shard()) {
                    of_shard.insert(key, entry);
                }
            }
            if let Some((_, error)) = newest.unread().first() {
                return Err(error.clone());
            }
        }
        Ok(alarms)
    }

    pub(super) fn must_have_shared_runs(&self, to: &str) -> Result<()> {
        self.must_share(to)?;
        if self.shared.options.has_shared_runs() {
            return Ok(());
        }
        Err(Error::input(format!(
            "cannot {to} of a store without shared runs: open it with StoreOptions::remote_runs"
        )))
    }
}

/// Lists a run in place of those that it has replaced, unless an earlier call has listed it or what replaces it.
fn list(state: &mut ArchiveState, meta: RunMeta, run: &SharedRun) {
    let is_within =
        |inner: &(u64, u64), outer: &(u64, u64)| outer.0 <= inner.0 && inner.1 <= outer.1;
    let own = (run.first, run.last);
    if state.places.values().any(|other| is_within(&own, other)) {
        return;
    }
    // A run that was listed before the database lost it can be listed again, elsewhere.
    let is_replaced =
        |number: &u64, other: &mut (u64, u64)| is_within(other, &own) || *number == meta.number;
    let replaced = state.places.extract_if(.., is_replaced);
    let replaced: BTreeSet<u64> = replaced.map(|(number, _)| number).collect();
    state.runs.retain(|run| !replaced.contains(&run.number));
    state.remote.retain(|number, _| !replaced.contains(number));
    state.damaged.retain(|number| !replaced.contains(number));
    let place_of = |run: &RunMeta| state.places.get(&run.number).copied();
    let at = state.runs.partition_point(|run| place_of(run) < Some(own));
    state.places.insert(meta.number, own);
    state.remote.insert(meta.number, run.place.clone());
    state.runs.insert(at, meta);
}

pub(super) fn must_be_number(number: u64) -> Result<()> {
    if number <= MOST_PLACES {
        return Ok(());
    }
    Err(Error::input(format!(
        "{number} is no number of a run, nor of a place: it is at most {MOST_PLACES}"
    )))
}

/// The error for commits that are nowhere.
fn gap(key: ObjectKey) -> Error {
    Error::damaged(format!(
        "commits of the object {key} are missing before others of it that are in logs: neither logs nor runs have them"
    ))
}

/// The error for a state that is in a file of its owner alone.
pub(super) fn replaced(key: ObjectKey) -> Error {
    Error::refused(format!(
        "the object {key} was replaced by a restore or fork too large for the log; its state is only on its earlier owner's machine"
    ))
}
