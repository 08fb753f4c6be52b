//! The manifest: the one small file that records where recovery begins and what the data directory holds.
//!
//! Text: a first line `abide manifest VERSION CRC`, where CRC is the CRC-32C of everything that follows in hex, then
//! JSON. It is replaced as a whole: written to a new file, synced, renamed, and the directory synced.

mod alarm_runs;
mod archive;
mod clock;
mod hole;
mod hydration;
mod quarantine;
mod replacement;

pub(crate) use alarm_runs::{RunRef, Runs};
pub(crate) use archive::{ArchiveState, RunMeta};
pub(crate) use clock::ClockReading;
pub use hole::ArchiveHole;
pub(crate) use hydration::HydrationState;
pub(crate) use quarantine::{Aside, Continues, Quarantine, Saved};
pub(crate) use replacement::Replacement;

use crate::disk::{Disk, OpenMode};
use crate::error::{Error, Failure, Result};
use crate::ident::{Epoch, Lsn, NamespaceNo, ObjectKey};
use crate::limits::MIN_SEGMENT_BYTES;
use crate::timeline::{Mark, Raise};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The version of the data directory's format.
pub(crate) const FORMAT_VERSION: u32 = 1;

const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";
const TITLE: &str = "abide manifest";

/// More bytes than a file can have, and a bound for other counts.
const MOST_BYTES: u64 = 1 << 48;

/// Above every position of a log and every number of a file.
pub(crate) const MOST_PLACES: u64 = 1 << 62;

/// Returns whether a store can reach this log position or file number.
fn is_place(number: u64) -> bool {
    number <= MOST_PLACES
}

/// The content of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The epoch of the last opening.
    pub(crate) epoch: u32,
    /// Object files hold everything before this position; recovery replays from here.
    pub(crate) redo: u64,
    /// Size of the log's segments in bytes.
    pub(crate) segment_bytes: u64,
    /// The unique keys of the namespaces; a namespace's number is its index, counted from 1. A deleted one is empty.
    pub(crate) namespaces: Vec<String>,
    /// The unique keys of deleted namespaces whose object files are being removed.
    pub(crate) removing: BTreeSet<String>,
    /// Objects that are unavailable until they are repaired.
    pub(crate) quarantined: BTreeMap<String, Quarantine>,
    /// Where the alarm index is saved.
    pub(crate) alarms: Runs,
    /// The wall clock, and the sum of its steps back.
    pub(crate) clock: ClockReading,
    /// How far the log is archived, and in which runs.
    pub(crate) archive: ArchiveState,
    /// The directory was restored to be looked at: no node serves it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) inspect: bool,
    /// The newest restore of the whole directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restored: Option<Mark>,
    /// What timelines are above positions of the log.
    #[serde(default, skip_serializing_if = "Raise::is_none")]
    pub(crate) raise: Raise,
    /// Objects may have no files yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hydration: Option<HydrationState>,
    /// Those of them that may be opened without a file, because they are large.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) large: BTreeSet<String>,
}

impl Manifest {
    /// The manifest of a directory that holds nothing.
    pub(crate) fn empty(segment_bytes: u64) -> Self {
        Self {
            epoch: 0,
            redo: 0,
            segment_bytes,
            namespaces: Vec::new(),
            removing: BTreeSet::new(),
            quarantined: BTreeMap::new(),
            alarms: Runs::default(),
            clock: ClockReading::default(),
            archive: ArchiveState::default(),
            inspect: false,
            restored: None,
            raise: Raise::default(),
            hydration: None,
            large: BTreeSet::new(),
        }
    }

    pub(crate) fn redo(&self) -> Lsn {
        Lsn(self.redo)
    }

    /// The end of the log that need not be kept: it is in the object files, and archived or not to be archived.
    pub(crate) fn archived(&self) -> Lsn {
        let archived = self.archive.archived.unwrap_or(self.redo);
        Lsn(archived.min(self.redo))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// The number of a namespace that is already known.
    pub(crate) fn namespace(&self, unique_key: &str) -> Option<NamespaceNo> {
        let place = self.namespaces.iter().position(|key| key == unique_key)?;
        Some(NamespaceNo(place as u32 + 1))
    }

    /// The unique key of a namespace; `None` if it is unknown or was deleted.
    pub(crate) fn unique_key(&self, namespace: NamespaceNo) -> Option<&str> {
        let place = namespace.0.checked_sub(1)?;
        let key = self.namespaces.get(place as usize)?;
        (!key.is_empty()).then_some(key)
    }

    /// Returns whether the archive, or what is to be known to read it, differs from that of another manifest.
    pub(crate) fn has_other_history(&self, other: &Self) -> bool {
        self.archive != other.archive
            || self.namespaces != other.namespaces
            || self.quarantined != other.quarantined
    }

    /// Deletes a namespace, whose number stays taken. Returns the quarantines of its objects.
    pub(crate) fn delete_namespace(&mut self, namespace: NamespaceNo) -> Vec<Quarantine> {
        let place = namespace.0.checked_sub(1);
        let key = place.and_then(|place| self.namespaces.get_mut(place as usize));
        key.map(String::clear);
        let is_gone =
            |key: &str| ObjectKey::parse(key).is_some_and(|key| key.namespace == namespace);
        let gone = self.quarantined.extract_if(.., |key, _| is_gone(key));
        gone.map(|(_, quarantine)| quarantine).collect()
    }

    /// Returns whether a namespace was deleted.
    pub(crate) fn is_deleted(&self, namespace: NamespaceNo) -> bool {
        let place = namespace.0.checked_sub(1);
        let key = place.and_then(|place| self.namespaces.get(place as usize));
        key.is_some_and(String::is_empty)
    }

    /// The quarantine of an object, if it is quarantined.
    pub(crate) fn quarantine_of(&self, key: ObjectKey) -> Option<&Quarantine> {
        self.quarantined.get(&key.to_string())
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_string_pretty(self)
            .map_err(|e| Error::refused(format!("encoding the manifest: {e}")))?;
        let crc = crc32c::crc32c(body.as_bytes());
        Ok(format!("{TITLE} {FORMAT_VERSION} {crc:08x}\n{body}").into_bytes())
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = || {
            Error::refused(format!(
                "{} is damaged: restore the data directory from a backup; nothing was changed",
                path.display()
            ))
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let (head, body) = text.split_once('\n').ok_or_else(damaged)?;
        let mut words = head
            .strip_prefix(TITLE)
            .ok_or_else(damaged)?
            .split_whitespace();
        let version: u32 = words
            .next()
            .and_then(|w| w.parse().ok())
            .ok_or_else(damaged)?;
        if version != FORMAT_VERSION {
            let directory = path.parent().unwrap_or(path).display();
            let what = format_args!("the data directory {directory}");
            return Err(Error::unknown_format(what, version, FORMAT_VERSION));
        }
        let crc = words.next().and_then(|w| u32::from_str_radix(w, 16).ok());
        if crc != Some(crc32c::crc32c(body.as_bytes())) {
            return Err(damaged());
        }
        serde_json::from_str(body)
            .ok()
            .filter(Self::is_possible)
            .ok_or_else(damaged)
    }

    /// Returns whether a store could have reached these numbers. The engine continues counting from them and reserves
    /// by them.
    fn is_possible(&self) -> bool {
        let segment = MIN_SEGMENT_BYTES..=MOST_BYTES;
        let archive = &self.archive;
        let positions = [
            self.redo,
            self.alarms.newest,
            self.clock.position,
            archive.rebase,
            archive.gap,
            archive.lapses,
            archive.newest,
            self.restored.map_or(0, |mark| mark.position),
            self.raise.bytes,
            self.hydration.map_or(0, |hydration| hydration.before),
        ];
        let mut alarm_runs = self.alarms.list.iter();
        let saved = self.quarantined.values().filter_map(|of| of.pages.as_ref());
        let saved = saved.map(|saved| &saved.run);
        let replacements = || archive.replacements.iter();
        let new_states = replacements().filter_map(|of| of.run.as_ref());
        let mut runs = archive.runs.iter().chain(saved).chain(new_states.clone());
        self.epoch < u32::MAX
            && self.raise.generations < u32::MAX / 2
            && self
                .restored
                .is_none_or(|mark| mark.generation <= self.epoch)
            && segment.contains(&self.segment_bytes)
            && self.clock.set_back >= 0
            && archive.swept <= archive.lapses
            && archive
                .runs
                .iter()
                .chain(new_states)
                .all(|run| run.number <= archive.newest)
            && replacements().all(|of| is_place(of.after) && of.epoch <= self.epoch)
            && positions.into_iter().chain(archive.archived).all(is_place)
            && alarm_runs.all(|run| is_place(run.number) && run.entries <= MOST_BYTES)
            && runs.all(|run| {
                let places = [run.number, run.from, run.to];
                places.into_iter().all(is_place)
                    && run.from <= run.to
                    && run.objects.max(run.bytes) <= MOST_BYTES
                    && run.level < u32::MAX
            })
    }

    /// Replaces the first line of a manifest by that of this version, with the checksum of what follows.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn seal(bytes: &mut Vec<u8>) {
        let body = bytes.iter().position(|&byte| byte == b'\n');
        let body = bytes.split_off(body.map_or(0, |newline| newline + 1));
        let crc = crc32c::crc32c(&body);
        *bytes = format!("{TITLE} {FORMAT_VERSION} {crc:08x}\n").into_bytes();
        bytes.extend(body);
    }

    /// Reads the manifest of a data directory; `None` if there is none.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(NAME);
        let failed = |error| Error::io(format_args!("reading {}", path.display()), &error);
        let file = match disk.open(&path, OpenMode::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        let read = file.read_at(&mut bytes, 0).map_err(failed)?;
        Self::decode(&bytes[..read], &path).map(Some)
    }

    /// Replaces the manifest, durably.
    pub(crate) fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let (new, path): (PathBuf, PathBuf) = (dir.join(NEW_NAME), dir.join(NAME));
        let bytes = self.encode()?;
        let failed =
            |error: io::Error| Error::io(format_args!("writing {}", path.display()), &error);
        // After the rename, recovery may find the new manifest.
        let lost =
            |error: io::Error| Error::sync(format_args!("writing {}", path.display()), &error);
        // Opened before the rename, to detect a missing descriptor while nothing has changed.
        let names = disk.names(dir).map_err(failed)?;
        let write = || {
            // A crash in the middle of the rename may have left two names for one file: it must not be written again.
            match disk.remove(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = disk.open(&new, OpenMode::Create)?;
            file.write_at(&bytes, 0)?;
            io::Result::Ok(file)
        };
        let file = write().map_err(failed)?;
        file.sync().map_err(lost)?;
        disk.rename(&new, &path)
            .map_err(|error| match Failure::of(&error) {
                Failure::Full | Failure::Passing => failed(error),
                Failure::Lasting => lost(error),
            })?;
        names().map_err(|error| lost(error).into_final())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskOp, FaultyDisk, SimDisk, errno};
    use crate::error::ErrorKind;

    fn manifest() -> Manifest {
        Manifest {
            epoch: 3,
            redo: 77,
            namespaces: vec!["a".to_owned(), "b".to_owned()],
            removing: BTreeSet::from(["c".to_owned()]),
            restored: Some(Mark {
                generation: 2,
                position: 5,
                unix_millis: 7,
            }),
            ..Manifest::empty(1 << 20)
        }
    }

    fn disk() -> (SimDisk, PathBuf) {
        let disk = SimDisk::new();
        let dir = PathBuf::from("/data");
        disk.create_dir_all(&dir).unwrap();
        (disk, dir)
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let (disk, dir) = disk();
        assert_eq!(Manifest::load(&disk, &dir).unwrap(), None);
        manifest().store(&disk, &dir).unwrap();
        let read = Manifest::load(&disk, &dir).unwrap().unwrap();
        assert_eq!(read, manifest());
        assert_eq!(read.namespace("b"), Some(NamespaceNo(2)));
        assert_eq!(read.unique_key(NamespaceNo(1)), Some("a"));
    }

    #[test]
    fn a_crash_while_replacing_the_manifest_leaves_the_old_or_the_new() {
        for stop in 0..8 {
            for seed in 0..50 {
                let (disk, dir) = disk();
                manifest().store(&disk, &dir).unwrap();
                disk.stop_at(disk.changes() + stop);
                let newer = Manifest {
                    redo: 99,
                    ..manifest()
                };
                let stored = newer.store(&disk, &dir).is_ok();
                let read = Manifest::load(&disk.crash(seed), &dir).unwrap().unwrap();
                assert!(
                    read == newer || (!stored && read == manifest()),
                    "stop {stop} seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_manifest_whose_name_was_not_synced_is_not_taken_for_a_full_disk() {
        let (disk, dir) = disk();
        let disk = FaultyDisk::new(disk);
        disk.fail(&[DiskOp::SyncDir], "", errno::ENOSPC);
        let error = manifest().store(&disk, &dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }

    #[test]
    fn two_crashes_while_the_manifest_is_replaced_leave_one_that_was_stored() {
        for (first, second) in (0..8).flat_map(|first| (0..8).map(move |second| (first, second))) {
            for seed in 0..20 {
                let (disk, dir) = disk();
                manifest().store(&disk, &dir).unwrap();
                disk.stop_at(disk.changes() + first);
                let newer = |redo| Manifest { redo, ..manifest() };
                let _ = newer(98).store(&disk, &dir);
                let disk = disk.crash(seed);
                disk.stop_at(disk.changes() + second);
                let _ = newer(99).store(&disk, &dir);
                let read = Manifest::load(&disk.crash(seed), &dir).unwrap().unwrap();
                assert!(
                    [77, 98, 99].contains(&read.redo),
                    "{first} {second} seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_manifest_with_figures_that_no_store_comes_to_is_refused() {
        let changes: [fn(&mut Manifest); 7] = [
            |manifest| manifest.epoch = u32::MAX,
            |manifest| manifest.redo = u64::MAX,
            |manifest| manifest.segment_bytes = 4096,
            |manifest| manifest.segment_bytes = u64::MAX,
            |manifest| manifest.alarms.newest = u64::MAX,
            |manifest| manifest.archive.archived = Some(u64::MAX),
            |manifest| manifest.restored.as_mut().unwrap().generation = 4,
        ];
        let decoded =
            |manifest: &Manifest| Manifest::decode(&manifest.encode().unwrap(), Path::new("M"));
        assert_eq!(decoded(&manifest()).unwrap(), manifest());
        for change in changes {
            let mut bad = manifest();
            change(&mut bad);
            let refused = decoded(&bad).map_err(|error| error.kind());
            assert_eq!(refused, Err(ErrorKind::Refused), "{bad:?}");
        }
    }

    #[test]
    fn a_manifest_of_another_format_is_refused() {
        for version in [0, 2] {
            let text = format!("{TITLE} {version} 00000000\n{{}}");
            let error = Manifest::decode(text.as_bytes(), Path::new("d/MANIFEST")).unwrap_err();
            let told = format!(
                "the data directory d has format {version}, and this program reads format 1: use the program that wrote it, \
                 or a newer one; nothing was changed"
            );
            assert_eq!(
                (error.kind(), error.to_string()),
                (ErrorKind::Refused, told)
            );
        }
    }

    #[test]
    fn a_damaged_manifest_is_refused() {
        let (disk, dir) = disk();
        manifest().store(&disk, &dir).unwrap();
        disk.flip(&dir.join(NAME), 40);
        let error = Manifest::load(&disk, &dir).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}
