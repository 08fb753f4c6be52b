//! Which manifests a store has.

use std::time::SystemTime;

use futures_util::{StreamExt as _, stream};

use crate::{Error, Session, Store, Writer, claim};

/// A manifest of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its number.
    pub number: u64,
    /// Everything that was acknowledged before this time is in it, by the clock of its writer.
    pub time: SystemTime,
    /// The data directory that wrote it.
    pub writer: Writer,
    /// How many runs its copy has.
    pub runs: u64,
    /// Their length.
    pub bytes: u64,
    /// The start of a process that wrote it.
    pub session: Session,
    /// What the source said of the copy. `None` if there is no copy yet: the first of a history takes its time.
    pub content: Option<Vec<u8>>,
}

/// The newest manifests, at most `limit`, newest first. One that cannot be read is an error, beside the others.
///
/// # Errors
/// If the store does not answer, or the newest manifest needs another key.
pub async fn list(store: &Store, limit: usize) -> Result<Vec<Result<Listed, Error>>, Error> {
    let manifests = claim::manifests(store).await?;
    let numbers = manifests.into_iter().rev().take(limit);
    let read: Vec<_> = numbers
        .map(|(number, _)| one(store.clone(), number))
        .collect();
    let mut listed: Vec<_> = stream::iter(read).buffered(8).collect().await;
    // The same holds for all.
    match listed.first() {
        Some(Err(error)) if error.is_refusal() => listed.swap_remove(0).map(|_| Vec::new()),
        _ => Ok(listed),
    }
}

async fn one(store: Store, number: u64) -> Result<Listed, Error> {
    let manifest = claim::manifest(&store, number).await?;
    Ok(Listed {
        number,
        time: manifest.time,
        writer: manifest.writer,
        runs: manifest.runs.len() as u64,
        bytes: manifest.bytes(),
        session: manifest.session,
        content: manifest.content,
    })
}
