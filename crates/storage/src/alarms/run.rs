//! Runs: the alarm index on disk, as the files `alarms/NUMBER.run` that the manifest lists.
//!
//! The first run of the list holds the whole index at its time; each later run holds the changes since the one before.
//! Together they are at least as new as the index at the manifest's redo position; replaying later changes again is
//! idempotent. A run and its directory entry are synced before the manifest lists it. The run is removed once no
//! manifest lists it any more. Bytes: `docs/format.md`.

use super::index::{AlarmIndex, Unsaved};
use crate::alarm_entry::{AlarmChange, flags};
use crate::disk::{Disk, DiskFile, OpenMode, sync_names};
use crate::error::{Error, Result};
use crate::ident::{Lsn, NamespaceNo, ObjectKey};
use crate::manifest::{RunRef, Runs};
use bytes::{Buf, BufMut};
use std::io;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"abidealm";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 48;

const CLEARED: u32 = 1;
/// The bit at which an entry's flags begin.
const FLAGS_SHIFT: u32 = 1;

/// Entries read and written at a time.
const CHUNK: usize = 16 * 1024;

/// A run that cannot be read.
pub(crate) struct DamagedRun {
    pub(crate) path: PathBuf,
    pub(crate) why: io::Error,
}

/// The directory of the runs.
pub(crate) fn dir_of(data: &Path) -> PathBuf {
    data.join("alarms")
}

fn path_of(data: &Path, number: u64) -> PathBuf {
    dir_of(data).join(format!("{number:016}.run"))
}

/// Writes the unsaved part of the index as a run, and returns the list for the next manifest.
pub(crate) fn write(
    disk: &dyn Disk,
    data: &Path,
    runs: &Runs,
    redo: Lsn,
    unsaved: &mut Unsaved<'_>,
    durable: impl FnOnce(Lsn) -> Result<()>,
) -> Result<Runs> {
    if unsaved.len() == 0 && !unsaved.is_whole() {
        return Ok(runs.clone());
    }
    let merges = unsaved.is_whole() || runs.merges(unsaved.len());
    let entries = if merges {
        unsaved.everything()
    } else {
        unsaved.changes()
    };
    // As with a page of a file, an entry of a run must not reveal a change that may still be lost.
    durable(unsaved.newest)?;
    let mut next = if merges {
        Runs {
            newest: runs.newest,
            ..Runs::default()
        }
    } else {
        runs.clone()
    };
    if entries.is_empty() {
        return Ok(next);
    }
    next.newest += 1;
    next.list.push(RunRef {
        number: next.newest,
        entries: entries.len() as u64,
    });
    let path = path_of(data, next.newest);
    let written = |error: io::Error| Error::io(format_args!("writing {}", path.display()), &error);
    let file = disk.open(&path, OpenMode::Create).map_err(written)?;
    write_entries(&*file, next.newest, redo, &entries).map_err(written)?;
    let synced = |error: io::Error| Error::sync(format_args!("syncing {}", path.display()), &error);
    file.sync().map_err(synced)?;
    sync_names(disk, &dir_of(data))?;
    Ok(next)
}

fn write_entries(
    file: &dyn DiskFile,
    number: u64,
    redo: Lsn,
    entries: &[(ObjectKey, AlarmChange)],
) -> io::Result<()> {
    file.set_len(0)?;
    let mut bytes = Vec::with_capacity(CHUNK.min(entries.len()) * ENTRY_BYTES);
    let (mut at, mut crc) = (HEADER_BYTES as u64, 0);
    for chunk in entries.chunks(CHUNK) {
        bytes.clear();
        for (key, change) in chunk {
            encode(&mut bytes, *key, *change);
        }
        crc = crc32c::crc32c_append(crc, &bytes);
        file.write_at(&bytes, at)?;
        at += bytes.len() as u64;
    }
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.put_slice(MAGIC);
    header.put_u32_le(VERSION);
    header.put_u32_le(crc);
    header.put_u64_le(number);
    header.put_u64_le(redo.0);
    header.put_u64_le(entries.len() as u64);
    header.put_bytes(0, 4);
    header.put_u32_le(crc32c::crc32c(&header));
    file.write_at(&header, 0)
}

fn encode(bytes: &mut Vec<u8>, key: ObjectKey, change: AlarmChange) {
    let (flags, due) = match change {
        AlarmChange::Cleared => (CLEARED, 0),
        AlarmChange::Set(entry) => {
            let bits = flags::of(&entry) << FLAGS_SHIFT;
            (bits | u32::from(entry.attempts) << 16, entry.due)
        }
    };
    bytes.put_u32_le(key.namespace.0);
    bytes.put_u32_le(flags);
    bytes.put_slice(&key.id);
    bytes.put_i64_le(due);
}

/// `None` if this is never written.
fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<(ObjectKey, AlarmChange)> {
    let mut fields = &bytes[..];
    let namespace = NamespaceNo(fields.get_u32_le());
    let flags = fields.get_u32_le();
    let mut id = [0; 32];
    fields.copy_to_slice(&mut id);
    let due = fields.get_i64_le();
    let key = ObjectKey { namespace, id };
    let change = if flags & CLEARED != 0 {
        AlarmChange::Cleared
    } else {
        let bits = (flags & 0xffff) >> FLAGS_SHIFT;
        AlarmChange::Set(flags::entry(bits, due, (flags >> 16) as u16)?)
    };
    Some((key, change))
}

/// Recomputes the checksums of a run.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8]) {
    let end = bytes.len();
    crate::fuzzing::put_crc(bytes, 12, HEADER_BYTES..end);
    crate::fuzzing::put_crc(bytes, HEADER_BYTES - 4, 0..HEADER_BYTES - 4);
}

/// The outcome of loading the saved runs.
pub(crate) enum Loaded {
    /// The index as it was saved.
    Whole(Box<AlarmIndex>),
    /// This run is damaged or missing: the index must be rebuilt from the rows.
    Damaged(DamagedRun),
    /// It was not saved: it is built from the rows.
    Unsaved,
}

/// Reads the runs that the manifest lists.
pub(crate) fn load(disk: &dyn Disk, data: &Path, runs: &Runs) -> Result<Loaded> {
    if runs.unsaved {
        return Ok(Loaded::Unsaved);
    }
    let index = AlarmIndex::default();
    for run in &runs.list {
        let path = path_of(data, run.number);
        let read = disk
            .open(&path, OpenMode::Existing)
            .and_then(|file| read_entries(&*file, *run, |key, change| index.load(key, change)));
        match read {
            Ok(()) => {}
            Err(why) if is_damage(&why) => {
                return Ok(Loaded::Damaged(DamagedRun { path, why }));
            }
            Err(error) => {
                return Err(Error::io(
                    format_args!("reading {}", path.display()),
                    &error,
                ));
            }
        }
    }
    Ok(Loaded::Whole(Box::new(index)))
}

/// Returns whether a retry is pointless: the bytes are wrong, missing, or unreadable on the medium.
fn is_damage(error: &io::Error) -> bool {
    /// `EIO` on every Unix.
    const MEDIUM: i32 = 5;
    let kinds = [io::ErrorKind::InvalidData, io::ErrorKind::NotFound];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(MEDIUM)
}

fn read_entries(
    file: &dyn DiskFile,
    run: RunRef,
    mut take: impl FnMut(ObjectKey, AlarmChange),
) -> io::Result<()> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut header = [0; HEADER_BYTES];
    file.read_at(&mut header, 0)?;
    let (mut fields, mut header_crc) = header.split_at(HEADER_BYTES - 4);
    if !fields.starts_with(MAGIC) || header_crc.get_u32_le() != crc32c::crc32c(fields) {
        return Err(damaged("its header is damaged"));
    }
    fields.advance(MAGIC.len());
    if fields.get_u32_le() != VERSION {
        return Err(damaged("its version is not supported"));
    }
    let entries_crc = fields.get_u32_le();
    let (number, _redo) = (fields.get_u64_le(), fields.get_u64_le());
    if number != run.number || fields.get_u64_le() != run.entries {
        return Err(damaged("it is not the run that the manifest lists"));
    }
    let mut bytes = vec![0; CHUNK * ENTRY_BYTES];
    let (mut at, mut crc) = (HEADER_BYTES as u64, 0);
    let mut left = run.entries as usize;
    while left > 0 {
        let wanted = left.min(CHUNK) * ENTRY_BYTES;
        let read = file.read_at(&mut bytes[..wanted], at)?;
        if read < wanted {
            return Err(damaged("it is too short"));
        }
        crc = crc32c::crc32c_append(crc, &bytes[..wanted]);
        at += wanted as u64;
        left -= wanted / ENTRY_BYTES;
        for entry in bytes[..wanted].as_chunks::<ENTRY_BYTES>().0 {
            let (key, change) = decode(entry).ok_or_else(|| damaged("it has unknown flags"))?;
            take(key, change);
        }
    }
    if crc != entries_crc {
        return Err(damaged("its entries are damaged"));
    }
    Ok(())
}

/// Removes the runs that the manifest does not list: leftovers of a crash, or runs replaced by newer ones.
pub(crate) fn remove_others(disk: &dyn Disk, data: &Path, runs: &Runs) -> io::Result<()> {
    for name in disk.list(&dir_of(data))? {
        let number: Option<u64> = name
            .strip_suffix(".run")
            .and_then(|number| number.parse().ok());
        if number.is_some_and(|number| runs.list.iter().all(|run| run.number != number)) {
            disk.remove(&dir_of(data).join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm_entry::{AlarmEntry, Isolation};
    use crate::disk::SimDisk;
    use crate::limits::MAX_ALARM_RUNS;

    fn key(id: u8) -> ObjectKey {
        ObjectKey {
            namespace: NamespaceNo(3),
            id: [id; 32],
        }
    }

    fn set(due: i64, attempts: u16, failed: bool) -> AlarmChange {
        AlarmChange::Set(AlarmEntry {
            attempts,
            failed,
            ..AlarmEntry::at(due)
        })
    }

    fn loaded(disk: &SimDisk, data: &Path, runs: &Runs) -> AlarmIndex {
        match load(disk, data, runs).unwrap() {
            Loaded::Whole(index) => *index,
            Loaded::Damaged(run) => panic!("{}: {}", run.path.display(), run.why),
            Loaded::Unsaved => panic!("it was saved"),
        }
    }

    fn save(disk: &SimDisk, data: &Path, index: &AlarmIndex, runs: &Runs) -> Runs {
        disk.create_dir_all(&dir_of(data)).unwrap();
        let mut unsaved = index.unsaved();
        let runs = write(disk, data, runs, Lsn(9), &mut unsaved, |_| Ok(())).unwrap();
        unsaved.saved();
        runs
    }

    fn all(index: &AlarmIndex) -> Vec<(ObjectKey, AlarmChange)> {
        index.unsaved().everything()
    }

    #[test]
    fn runs_are_read_as_they_were_written() {
        let (disk, data) = (SimDisk::new(), Path::new("/data"));
        let index = AlarmIndex::default();
        for id in 0..20 {
            let change = set(i64::from(id) - 5, u16::from(id), id % 5 == 0);
            index.apply(key(id), change, Lsn(1));
        }
        let mut runs = save(&disk, data, &index, &Runs::default());
        for id in 0..4 {
            index.apply(key(id), AlarmChange::Cleared, Lsn(2));
            index.apply(key(id + 4), set(77, 1, false), Lsn(3));
            runs = save(&disk, data, &index, &runs);
            assert_eq!(all(&loaded(&disk, data, &runs)), all(&index));
        }
        assert_eq!(runs.list.len(), 5);
        assert_eq!(
            save(&disk, data, &index, &runs),
            runs,
            "nothing has changed"
        );
    }

    #[test]
    fn many_changes_make_a_new_first_run_and_the_old_ones_are_removed() {
        let (disk, data) = (SimDisk::new(), Path::new("/data"));
        let index = AlarmIndex::default();
        let mut runs = Runs::default();
        for round in 0..40 {
            for id in 0..3 {
                index.apply(key(id + round), set(1, 1, false), Lsn(1));
            }
            runs = save(&disk, data, &index, &runs);
            remove_others(&disk, data, &runs).unwrap();
            assert!(runs.list.len() <= MAX_ALARM_RUNS, "{runs:?}");
            assert_eq!(disk.list(&dir_of(data)).unwrap().len(), runs.list.len());
            assert_eq!(all(&loaded(&disk, data, &runs)), all(&index));
        }
        for id in 0..43 {
            index.apply(key(id), AlarmChange::Cleared, Lsn(2));
        }
        let runs = save(&disk, data, &index, &runs);
        assert_eq!(runs.list, []);
    }

    #[test]
    fn attempts_that_have_begun_are_read_as_they_were_written() {
        let (disk, data) = (SimDisk::new(), Path::new("/data"));
        let index = AlarmIndex::default();
        let isolations = [
            None,
            Some(Isolation::Free),
            Some(Isolation::Few),
            Some(Isolation::Alone),
        ];
        for (id, begun) in (0..).zip(isolations) {
            let entry = AlarmEntry {
                failing: id % 2 == 0,
                begun,
                ..AlarmEntry::at(1)
            };
            index.apply(key(id), AlarmChange::Set(entry), Lsn(1));
        }
        let runs = save(&disk, data, &index, &Runs::default());
        assert_eq!(all(&loaded(&disk, data, &runs)), all(&index));
    }

    #[test]
    fn damage_at_any_byte_of_a_run_is_seen() {
        let (disk, data) = (SimDisk::new(), Path::new("/data"));
        let index = AlarmIndex::default();
        index.apply(key(1), set(5, 0, false), Lsn(1));
        let runs = save(&disk, data, &index, &Runs::default());
        let is_damaged = |disk: &SimDisk| matches!(load(disk, data, &runs), Ok(Loaded::Damaged(run)) if run.path == path_of(data, 1));
        assert!(!is_damaged(&disk));
        for offset in 0..(HEADER_BYTES + ENTRY_BYTES) as u64 {
            let disk = disk.after_kill();
            disk.flip(&path_of(data, 1), offset);
            assert!(is_damaged(&disk), "at {offset}");
        }
        disk.remove(&path_of(data, 1)).unwrap();
        assert!(is_damaged(&disk));
    }

    #[test]
    fn a_run_of_another_format_is_rebuilt_like_a_damaged_one() {
        let (disk, data) = (SimDisk::new(), Path::new("/data"));
        let index = AlarmIndex::default();
        index.apply(key(1), set(5, 0, false), Lsn(1));
        let runs = save(&disk, data, &index, &Runs::default());
        let file = disk.open(&path_of(data, 1), OpenMode::Existing).unwrap();
        for version in [0, VERSION + 1] {
            let mut header = [0; HEADER_BYTES];
            file.read_at(&mut header, 0).unwrap();
            (&mut header[MAGIC.len()..]).put_u32_le(version);
            let crc = crc32c::crc32c(&header[..HEADER_BYTES - 4]);
            (&mut header[HEADER_BYTES - 4..]).put_u32_le(crc);
            file.write_at(&header, 0).unwrap();
            let Ok(Loaded::Damaged(run)) = load(&disk, data, &runs) else {
                panic!("version {version} was read");
            };
            assert!(run.why.to_string().contains("version"), "{}", run.why);
        }
    }
}
