//! Uploading the runs that the store lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{ErrorKind, Read as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use object_store::PutMode;
use tokio::sync::watch;

use crate::{
    Error, Options, Run, Snapshot, Status, Store, StoredRun,
    manifest::Dropped,
    publisher::{Outcome, Publisher},
    store::Creation,
};

/// Whether all runs are in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Complete,
    /// A file is gone: its run was merged into another, so the snapshot is out of date.
    Vanished,
    /// What the store has is not what it was: it has a manifest of an owner before this one.
    Interrupted,
}

/// A part to upload.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub run: u64,
    pub path: PathBuf,
    /// The length of the whole file.
    pub of: u64,
    pub key: String,
    pub offset: u64,
    pub length: u64,
}

/// Uploads what is missing, some parts at once. Parts that the store has confirmed are not sent again if it fails.
pub(crate) async fn run(
    publisher: &mut Publisher,
    snapshot: &Snapshot,
    options: &Options,
    status: &watch::Sender<Status>,
) -> Result<Transfer, Error> {
    if find_again(publisher, snapshot).await? == Transfer::Vanished {
        return Ok(Transfer::Vanished);
    }
    let missing = missing(publisher, snapshot)?;
    let parts = parts(publisher, &missing, options.part.max(1));
    let waiting: BTreeSet<u64> = parts.iter().map(|part| part.run).collect();
    let backlog: u64 = parts.iter().map(|part| part.length).sum();
    status.send_modify(|status| {
        status.backlog_runs = waiting.len() as u64;
        status.backlog_bytes = backlog;
    });
    let mut missing: BTreeMap<u64, Run> =
        missing.into_iter().map(|run| (run.number, run)).collect();
    let mut staged = 0;
    let store = publisher.store.clone();
    let uploads = parts.into_iter().map(|part| upload(store.clone(), part));
    let uploads: Vec<_> = uploads.collect();
    let mut uploads = stream::iter(uploads).buffer_unordered(options.at_once.max(1));
    while let Some(uploaded) = uploads.next().await {
        let (part, Some(crc)) = uploaded? else {
            return Ok(Transfer::Vanished);
        };
        publisher.parts.insert(part.key, crc);
        let stored = missing
            .get(&part.run)
            .and_then(|run| stored(publisher, run));
        let is_stored = stored.is_some();
        if let Some(stored) = stored {
            missing.remove(&part.run);
            publisher.known.insert(part.run, stored);
        }
        status.send_modify(|status| {
            status.backlog_bytes = status.backlog_bytes.saturating_sub(part.length);
            status.backlog_runs = missing.len() as u64;
        });
        staged += part.length;
        if is_stored && staged >= options.stage && !missing.is_empty() {
            if publisher.stage().await? == Outcome::Earlier {
                return Ok(Transfer::Interrupted);
            }
            staged = 0;
        }
    }
    Ok(Transfer::Complete)
}

/// Of runs that were another's, finds those that this history has too: the same number, length and checksum, or left there by a
/// restore.
async fn find_again(publisher: &mut Publisher, snapshot: &Snapshot) -> Result<Transfer, Error> {
    for run in &snapshot.runs {
        if let Some(stored) = &run.stored {
            publisher.adopt(stored)?;
            continue;
        }
        let candidate = publisher.candidates.get(&run.number).cloned();
        let Some(candidate) = candidate.filter(|candidate| candidate.bytes == run.bytes) else {
            continue;
        };
        if publisher.known.contains_key(&run.number) {
            continue;
        }
        let path = run.path.clone();
        let checked = publisher.store.machine().on_thread(move || checksum(&path));
        let Some(crc) = checked.await? else {
            return Ok(Transfer::Vanished);
        };
        publisher.candidates.remove(&run.number);
        if crc == candidate.crc32c {
            publisher.known.insert(run.number, candidate);
        }
    }
    Ok(Transfer::Complete)
}

fn missing(publisher: &Publisher, snapshot: &Snapshot) -> Result<Vec<Run>, Error> {
    let mut missing = Vec::new();
    for run in &snapshot.runs {
        match publisher.known.get(&run.number) {
            None => missing.push(run.clone()),
            Some(known) if known.bytes != run.bytes => {
                let how = format!(
                    "it has {} bytes, and the run of this number in the store has {}",
                    run.bytes, known.bytes
                );
                return Err(Error::damaged(run.path.display().to_string(), how));
            }
            Some(_) => {}
        }
    }
    Ok(missing)
}

/// The parts of runs that the store has not confirmed.
fn parts(publisher: &mut Publisher, missing: &[Run], part: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    for run in missing {
        let begun = publisher.begun.entry(run.number);
        let begun = begun.or_insert_with(|| Dropped {
            key: publisher.folder.run(run.number),
            bytes: run.bytes,
            part,
            last: u64::MAX,
        });
        let mut offset = 0;
        for (key, length) in begun.parts() {
            if !publisher.parts.contains_key(&key) {
                parts.push(Part {
                    run: run.number,
                    path: run.path.clone(),
                    of: run.bytes,
                    key,
                    offset,
                    length,
                });
            }
            offset += length;
        }
    }
    parts
}

/// The run, if all its parts are there.
fn stored(publisher: &Publisher, run: &Run) -> Option<StoredRun> {
    let begun = publisher.begun.get(&run.number)?;
    let mut whole = 0;
    for (key, length) in begun.parts() {
        let crc = *publisher.parts.get(&key)?;
        whole = crc32c::crc32c_combine(whole, crc, usize::try_from(length).ok()?);
    }
    Some(StoredRun {
        number: run.number,
        key: begun.key.clone(),
        bytes: run.bytes,
        crc32c: whole,
        part: begun.part,
    })
}

/// Creates the object of a part, and returns its checksum; none if the file is gone.
pub(crate) async fn upload(store: Store, part: Part) -> Result<(Part, Option<u32>), Error> {
    let wanted = part.clone();
    let read = store.machine().on_thread(move || read(&wanted));
    let Some(bytes) = read.await? else {
        return Ok((part, None));
    };
    let crc = crc32c::crc32c(&bytes);
    let mut created = store.create(&part.key, bytes.clone()).await?;
    if created == Creation::Unknown {
        created = store
            .put(&part.key, bytes.clone(), PutMode::Overwrite)
            .await?;
    }
    if created != Creation::Made {
        // An earlier attempt of this session, whose response was lost. No one else writes under this key.
        let there = store.read(&part.key).await?;
        let there = there.ok_or_else(|| {
            let action = format!("creating {}", part.key);
            Error::store(action, "the store refuses it and does not have it")
        })?;
        if there != bytes {
            return Err(Error::damaged(part.key, "it is not what was written"));
        }
    }
    Ok((part, Some(crc)))
}

fn read(part: &Part) -> Result<Option<Bytes>, Error> {
    let failed = |error| Error::file(&part.path, error);
    let file = match File::open(&part.path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    if length != part.of {
        let how = format!("it has {length} bytes instead of {}", part.of);
        return Err(Error::damaged(part.path.display().to_string(), how));
    }
    let mut bytes = vec![0; usize::try_from(part.length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, part.offset)
        .map_err(failed)?;
    Ok(Some(bytes.into()))
}

/// The CRC-32C of a file; none if it is gone.
fn checksum(path: &Path) -> Result<Option<u32>, Error> {
    let failed = |error| Error::file(path, error);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut piece = vec![0; 1 << 20];
    let mut crc = 0;
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => return Ok(Some(crc)),
            length => crc = crc32c::crc32c_append(crc, &piece[..length]),
        }
    }
}
