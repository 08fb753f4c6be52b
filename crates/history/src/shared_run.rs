//! A run that a catalogue elsewhere lists, with those of other sessions.

use std::{collections::BTreeSet, path::Path};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::PutMode;

use crate::{
    Error, Options, Session, Store, StoredRun, Writer,
    key::{self, Folder, parts},
    transfer::{Part, upload},
};

/// What the keys of all runs begin with.
const RUNS: &str = "runs";

/// The object that says whose runs a store has.
const OWNER: &str = "cluster";

/// Marks a store as that of a cluster, unless it is marked. With a key, the mark is encrypted, too.
///
/// # Errors
/// It is marked as another's, has copies of a node, cannot be read with the key, or does not answer.
pub async fn mark_store(store: &Store, cluster: u128) -> Result<(), Error> {
    if is_marked(store, cluster).await? {
        return Ok(());
    }
    if !store.list(key::MANIFESTS).await?.is_empty() {
        return Err(Error::Configuration(format!(
            "{} has copies of a node with all its objects: give the cluster another place",
            store.location()
        )));
    }
    store.create(OWNER, name(cluster)).await?;
    // Another may have been faster.
    must_be_marked(store, cluster).await
}

/// Marks a store as that of a cluster, which continues with the runs of the one whose it was: that one makes no more runs.
///
/// # Errors
/// The store does not answer.
pub async fn take_store(store: &Store, cluster: u128) -> Result<(), Error> {
    store.put(OWNER, name(cluster), PutMode::Overwrite).await?;
    must_be_marked(store, cluster).await
}

/// Returns whether a store is marked as that of a cluster.
///
/// # Errors
/// It is marked as another's, cannot be read with the key, or does not answer.
pub async fn is_marked(store: &Store, cluster: u128) -> Result<bool, Error> {
    match store.read(OWNER).await? {
        Some(found) if found == name(cluster) => Ok(true),
        Some(_) => Err(Error::Configuration(format!(
            "{} has the runs of another cluster: give this one another place, or make its tables with `abide cluster rebuild` if it \
             has lost its database",
            store.location()
        ))),
        None => Ok(false),
    }
}

async fn must_be_marked(store: &Store, cluster: u128) -> Result<(), Error> {
    if is_marked(store, cluster).await? {
        return Ok(());
    }
    Err(Error::store(
        "marking the store".to_owned(),
        "what it has confirmed is not there",
    ))
}

fn name(cluster: u128) -> Bytes {
    format!("{cluster:032x}").into()
}

/// Copies a run into a store that has no manifests: its readers learn from elsewhere where it is, once this has returned. `number` is
/// that of no other run of the session. What was copied before an error stays.
///
/// # Errors
/// The file cannot be read, or the store does not take it, or has something else under the name.
pub async fn copy_run(
    store: &Store,
    writer: Writer,
    session: Session,
    number: u64,
    path: &Path,
    options: &Options,
) -> Result<StoredRun, Error> {
    let folder = Folder {
        writer,
        base: 0,
        session,
    };
    let path = path.to_owned();
    let of = path.clone();
    let length = store.machine().on_thread(move || {
        let metadata = std::fs::metadata(&of);
        let metadata = metadata.map_err(|error| Error::file(&of, error))?;
        Ok(metadata.len())
    });
    let bytes = length.await?;
    let (key, part) = (folder.run(number), options.part.max(1));
    let mut offset = 0;
    let uploads = parts(&key, bytes, part).map(|(key, length)| {
        let part = Part {
            run: number,
            path: path.clone(),
            of: bytes,
            key,
            offset,
            length,
        };
        offset += length;
        upload(store.clone(), part)
    });
    let uploads: Vec<_> = uploads.collect();
    let uploads = stream::iter(uploads).buffered(options.at_once.max(1));
    let gone = || Error::damaged(path.display().to_string(), "it is gone".to_owned());
    let crc32c = uploads
        .try_fold(0, async |whole, (part, crc)| {
            let crc = crc.ok_or_else(gone)?;
            let length = usize::try_from(part.length).unwrap_or(usize::MAX);
            Ok(crc32c::crc32c_combine(whole, crc, length))
        })
        .await?;
    Ok(StoredRun {
        number,
        key,
        bytes,
        crc32c,
        part,
    })
}

/// Removes what [`copy_run`] has put into the store before it failed.
///
/// # Errors
/// The store does not answer. Some may be removed.
pub async fn discard_run(
    store: &Store,
    writer: Writer,
    session: Session,
    number: u64,
) -> Result<(), Error> {
    let folder = Folder {
        writer,
        base: 0,
        session,
    };
    let key = folder.run(number);
    let entries = store.list(&key::runs(writer)).await?.into_iter();
    let parts = entries.map(|entry| entry.key);
    let parts: Vec<_> = parts.filter(|part| part.starts_with(&key)).collect();
    store.delete(&parts).await
}

/// Removes runs that [`copy_run`] has made, by their places: no reader is told of them any more. Those that are not there are not errors.
///
/// # Errors
/// A place is not valid, or the store does not answer. Some may be removed.
pub async fn remove_runs(store: &Store, places: &[String]) -> Result<(), Error> {
    let runs = places.iter().map(|place| StoredRun::at(place));
    let runs: Vec<_> = runs.collect::<Result<_, _>>()?;
    let parts = runs.iter().flat_map(StoredRun::parts);
    let keys: Vec<_> = parts.map(|(key, _)| key).collect();
    store.delete(&keys).await
}

/// The places of the runs that are not in the store as a whole, of these. Reads none of them.
///
/// # Errors
/// A place is not valid, or the store does not answer.
pub async fn missing_runs<'a>(store: &Store, places: &[&'a str]) -> Result<Vec<&'a str>, Error> {
    let entries = store.list(RUNS).await?;
    let there: BTreeSet<String> = entries.into_iter().map(|entry| entry.key).collect();
    let mut missing = Vec::new();
    for place in places {
        let mut parts = StoredRun::at(place)?.parts();
        if !parts.all(|(key, _)| there.contains(&key)) {
            missing.push(*place);
        }
    }
    Ok(missing)
}
