//! A run that a catalogue elsewhere lists, with those of other sessions.

use std::path::Path;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    Error, Options, Session, Store, StoredRun, Writer,
    key::{self, Folder, parts},
    transfer::{Part, upload},
};

/// The object that says whose runs a store has.
const OWNER: &str = "cluster";

/// Marks a store as that of a cluster, unless it is marked. With a key, the mark is encrypted, too.
///
/// # Errors
/// It is marked as another's, has copies of a node, cannot be read with the key, or does not answer.
pub async fn mark_store(store: &Store, cluster: u128) -> Result<(), Error> {
    let name = format!("{cluster:032x}");
    if store.read(OWNER).await?.is_none() {
        if !store.list(key::MANIFESTS).await?.is_empty() {
            return Err(Error::Configuration(format!(
                "{} has copies of a node with all its objects: give the cluster another place",
                store.location()
            )));
        }
        store.create(OWNER, name.clone().into()).await?;
    }
    // Another may have been faster.
    match store.read(OWNER).await? {
        Some(found) if found == name => Ok(()),
        Some(_) => Err(Error::Configuration(format!(
            "{} has the runs of another cluster: give this one another place",
            store.location()
        ))),
        None => Err(Error::store(
            "marking the store".to_owned(),
            "what it has confirmed is not there",
        )),
    }
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
