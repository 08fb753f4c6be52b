//! The tail of the log, in parts beside the archive: what was committed after the end of the archive.
//!
//! The parts are read twice. First each record is checked; then the transactions become runs of the archive, so that
//! everything that follows is as without a tail.

use super::source::Source;
use crate::archive;
use crate::archive::entry::Head;
use crate::archive::gathered::Gathered;
use crate::archive::replaced;
use crate::archive::run::{RunReader, RunWriter};
use crate::catalog::check_unique_key;
use crate::disk::{Disk, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{Epoch, Lsn};
use crate::limits::ARCHIVE_STEP_BYTES;
use crate::log::part::{self, Content, NoPart, PART_VERSION};
use crate::log::reader::Logged;
use crate::log::record::Header;
use crate::manifest::{ClockReading, Manifest, RunMeta};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the parts.
pub(crate) const DIR: &str = "tail";

/// As when the log is archived.
const COMPRESSION: i32 = 1;

/// The transactions in the parts that begin at or after the end of the archive.
pub(super) struct Tail {
    /// In the order of their numbers.
    files: Vec<PathBuf>,
    /// The end of the archive.
    from: Lsn,
    /// The end of the last complete transaction.
    end: Lsn,
    /// The number of complete transactions.
    pub(super) commits: u64,
    /// The time of the last one.
    pub(super) last_millis: Option<u64>,
    epoch: Epoch,
    clock: ClockReading,
    /// Those of the manifest and of all parts.
    namespaces: Vec<String>,
}

/// The records of a transaction.
type Parts<'a> = Vec<(Header, Cow<'a, [u8]>)>;

impl Tail {
    /// Reads and checks all parts that belong to a manifest.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<Self> {
        let mut tail = Self {
            files: list(disk, dir)?,
            from: manifest.archived(),
            end: manifest.archived(),
            commits: 0,
            last_millis: None,
            epoch: manifest.epoch(),
            clock: manifest.clock,
            namespaces: manifest.namespaces.clone(),
        };
        let mut names = tail.namespaces.clone();
        let (mut commits, mut last_millis) = (0, None);
        let (mut epoch, mut clock) = (tail.epoch, tail.clock);
        let mut classes = BTreeSet::new();
        tail.end = tail.read(
            disk,
            |path, part| merge(&mut names, path, &part.namespaces),
            |logged| {
                if let Some((first, _)) = logged.parts.first() {
                    commits += 1;
                    last_millis = Some(first.unix_millis);
                    epoch = epoch.max(first.epoch);
                    clock.saw(first.lsn, first.unix_millis);
                    classes.insert(first.key.namespace);
                }
                Ok(())
            },
        )?;
        if let Some(class) = classes.iter().find(|class| class.0 as usize > names.len()) {
            return Err(Error::refused(format!(
                "the tail of the log has an object of class number {}, which neither the copy of the manifest nor the tail \
                 names: they do not belong together; nothing was restored",
                class.0
            )));
        }
        Ok(Self {
            commits,
            last_millis,
            epoch,
            clock,
            namespaces: names,
            ..tail
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commits == 0
    }

    /// Adds the namespaces that only the tail has, and empties those that were deleted.
    pub(super) fn name_classes(&self, manifest: &mut Manifest) {
        manifest.namespaces.clone_from(&self.namespaces);
    }

    /// Writes the transactions as runs, and adds them to the source and to the manifest.
    pub(super) fn write(
        &self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        manifest: &mut Manifest,
        source: &mut Source<'_>,
        threads: usize,
    ) -> Result<()> {
        let Some(last_millis) = self.last_millis else {
            return Ok(());
        };
        let archive = dir.join(archive::DIR);
        let mut gathered = Gathered::default();
        let mut from = self.from;
        let mut write = |gathered: &mut Gathered, to: Lsn| {
            let number = manifest.archive.newest + 1;
            let meta = RunMeta::of_log(number, from.get(), to.get());
            let mut run =
                RunWriter::create(disk.clone(), manifest, &archive, meta, COMPRESSION, threads)?;
            gathered.sort();
            let rebase = Lsn(manifest.archive.rebase);
            let mut is_complete = true;
            for places in gathered.objects() {
                let older = |key| source.newest(key);
                let replacement = |head: &Head, run: &mut RunWriter| {
                    replaced::add(&**disk, &archive, &manifest.archive, head, run)
                };
                let left = gathered.write_object(
                    places,
                    rebase,
                    older,
                    replacement,
                    |_, _| Ok(false),
                    &mut run,
                )?;
                is_complete &= left.is_complete;
            }
            if !run.is_empty() {
                let run = run.finish()?;
                source.add(RunReader::open(&**disk, &archive, &run)?);
                manifest.archive.runs.push(run);
                manifest.archive.note_numbers();
            }
            if !is_complete {
                manifest.archive.lapse();
            }
            gathered.clear();
            from = to;
            Ok(())
        };
        let is_deleted = |header: &Header| {
            let name = self.namespaces.get(header.key.namespace.0 as usize - 1);
            name.is_none_or(String::is_empty)
        };
        self.read(
            &**disk,
            |_, _| Ok(()),
            |logged| {
                let first = logged.parts.first();
                if !first.is_some_and(|(first, _)| is_deleted(first)) {
                    gathered.add(logged.parts, logged.position());
                }
                if gathered.bytes() >= ARCHIVE_STEP_BYTES {
                    write(&mut gathered, logged.end)?;
                }
                Ok(())
            },
        )?;
        write(&mut gathered, self.end)?;
        manifest.epoch = self.epoch.get();
        manifest.redo = self.end.get();
        manifest.clock = self.clock;
        manifest.archive.archived = Some(self.end.get());
        manifest.archive.archived_millis = last_millis;
        Ok(())
    }

    /// Passes each part to `see`, and each complete transaction that is not in the archive to `take`, in order. Returns the
    /// end of the last one.
    fn read(
        &self,
        disk: &dyn Disk,
        mut see: impl FnMut(&Path, &Content<'_>) -> Result<()>,
        mut take: impl FnMut(&Logged<'_>) -> Result<()>,
    ) -> Result<Lsn> {
        let mut end = self.from;
        let mut continues_at = None;
        // The records of a transaction that continues in the next part.
        let mut carried: Vec<(Header, Vec<u8>)> = Vec::new();
        let mut newest = Epoch(0);
        for path in &self.files {
            let bytes = read_file(disk, path)?;
            let part = part::decode(&bytes).map_err(|why| match why {
                NoPart::Damaged => damaged(path),
                NoPart::Other(version) => {
                    Error::unknown_format(path.display(), version, PART_VERSION)
                }
            })?;
            self.must_continue(path, continues_at, part.first)?;
            continues_at = Some(part.end);
            see(path, &part)?;
            let mut parts: Parts<'_> = carried
                .drain(..)
                .map(|(header, payload)| (header, Cow::Owned(payload)))
                .collect();
            let (mut rest, mut at) = (part.records, part.first);
            while !rest.is_empty() {
                let (header, payload) = part::record_at(rest, at).ok_or_else(|| damaged(path))?;
                rest = &rest[header.length..];
                at = at.advance(header.length);
                let is_next = parts.first().is_none_or(|(first, _)| {
                    (first.key, first.epoch) == (header.key, header.epoch)
                });
                let is_archived = header.lsn < self.from;
                let is_split = is_archived && at > self.from;
                let is_possible = header.epoch >= newest
                    && header.epoch.get() < u32::MAX / 2
                    && header.key.namespace.0 > 0;
                if !is_next || is_split || !is_possible {
                    return Err(damaged(path));
                }
                newest = header.epoch;
                if is_archived {
                    continue;
                }
                let is_last = header.last_part;
                parts.push((header, Cow::Borrowed(payload)));
                if is_last {
                    take(&Logged {
                        parts: &parts,
                        end: at,
                    })?;
                    parts.clear();
                    end = at;
                }
            }
            carried = parts
                .into_iter()
                .map(|(header, payload)| (header, payload.into_owned()))
                .collect();
        }
        Ok(end)
    }

    /// Refuses a part that leaves a gap.
    fn must_continue(&self, path: &Path, at: Option<Lsn>, first: Lsn) -> Result<()> {
        match at {
            None if first > self.from => Err(Error::refused(format!(
                "{} begins at position {first} of the log, but the archive ends at {}: use a newer copy of the archive with its \
                 manifest, or restore without the directory {DIR}; nothing was restored",
                path.display(),
                self.from
            ))),
            Some(at) if first != at => Err(Error::refused(format!(
                "{} begins at position {first} of the log, but the part before it ends at {at}: copy the parts again from where \
                 they came; nothing was restored",
                path.display()
            ))),
            _ => Ok(()),
        }
    }
}

/// Adds the namespaces of a part. Numbers are never used again, so in each place there is one, which may be deleted.
fn merge(known: &mut Vec<String>, path: &Path, of_part: &[String]) -> Result<()> {
    let refused = |why| {
        Error::refused(format!(
            "{} names other classes than the copy of the manifest ({why}): they do not belong together; nothing was restored",
            path.display()
        ))
    };
    for (place, name) in of_part.iter().enumerate() {
        match known.get_mut(place) {
            Some(known) if known == name || known.is_empty() => {}
            Some(known) if name.is_empty() => known.clear(),
            Some(known) => return Err(refused(format!("{name} is {known} there"))),
            None => {
                let is_valid = name.is_empty() || check_unique_key(name).is_ok();
                if !is_valid || (!name.is_empty() && known.contains(name)) {
                    return Err(refused(format!("{name} cannot be added")));
                }
                known.push(name.clone());
            }
        }
    }
    Ok(())
}

/// The files of the parts, in the order of their numbers.
fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>> {
    let dir = dir.join(DIR);
    let names = disk.list(&dir);
    let mut names =
        names.map_err(|error| Error::io(format_args!("reading {}", dir.display()), &error))?;
    names.retain(|name| is_part(name));
    names.sort_unstable();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

fn is_part(name: &str) -> bool {
    let digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let number = name.strip_suffix(".part");
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(digit))
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let read = || {
        let file = disk.open(path, OpenMode::Existing)?;
        let mut bytes = vec![0; file.len()? as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    };
    read().map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))
}

fn damaged(path: &Path) -> Error {
    Error::damaged(format!(
        "nothing was restored: {} is damaged; copy it again from where it came",
        path.display()
    ))
}

/// Removes the parts: they are in the archive. If that fails, the next opening of the directory tries again.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path) {
    let dir = dir.join(DIR);
    let remove = || {
        let names = disk.list(&dir)?;
        names
            .iter()
            .try_for_each(|name| disk.remove(&dir.join(name)))?;
        disk.remove_dir(&dir)
    };
    match remove() {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, dir = %dir.display(), "cannot remove the parts of the log that were restored");
        }
        _ => {}
    }
}
