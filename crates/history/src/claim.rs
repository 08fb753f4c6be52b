//! Whose the history in the store is, decided by its newest manifest.

use crate::{Error, Manifest, Store, directory::Record, key, store::Entry};

/// What a start finds.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The manifest in force, if there is one.
    pub newest: Option<Manifest>,
    /// It is another's, and is taken over.
    pub is_taken_over: bool,
    /// All manifests, by number.
    pub manifests: Vec<(u64, Entry)>,
}

/// The manifests of a store, by number.
pub(crate) async fn manifests(store: &Store) -> Result<Vec<(u64, Entry)>, Error> {
    let entries = store.list(key::MANIFESTS).await?.into_iter();
    let number = |entry: &Entry| key::number_in(key::MANIFESTS, &entry.key);
    let numbered = entries.filter_map(|entry| Some((number(&entry)?, entry)));
    Ok(numbered.collect())
}

/// The numbers of the manifests from one on, the newest last.
pub(crate) async fn numbers_from(store: &Store, number: u64) -> Result<Vec<u64>, Error> {
    let before = key::manifest(number.saturating_sub(1));
    let entries = store.list_after(key::MANIFESTS, &before).await?;
    let numbers = entries
        .iter()
        .filter_map(|entry| key::number_in(key::MANIFESTS, &entry.key));
    Ok(numbers.filter(|there| *there >= number).collect())
}

/// The manifest of a number.
pub(crate) async fn manifest(store: &Store, number: u64) -> Result<Manifest, Error> {
    let key = key::manifest(number);
    let bytes = store.read(&key).await?;
    let bytes = bytes.ok_or(Error::Missing { key })?;
    Manifest::decode(number, &bytes)
}

impl Claim {
    /// Looks at the newest manifest: published or tried by this directory, it is its own.
    ///
    /// # Errors
    /// [`Error::Owned`] if it is another's, unless that is to be taken over.
    pub(crate) async fn check(
        store: &Store,
        record: &Record,
        take_over: bool,
    ) -> Result<Self, Error> {
        let manifests = manifests(store).await?;
        let Some(&(number, _)) = manifests.last() else {
            return Ok(Self {
                newest: None,
                is_taken_over: false,
                manifests,
            });
        };
        let newest = manifest(store, number).await?;
        let mark = newest.mark();
        let is_own = record.knows(mark);
        // It has sealed the tail: whatever the manifest says, its owner is gone or stops. `Tail::open` sees whether the seal holds.
        let continues = record.is_restored && record.published.is_none();
        if !is_own && !continues && !take_over {
            return Err(Error::Owned(refusal(store, &newest, record)));
        }
        Ok(Self {
            newest: Some(newest),
            is_taken_over: !is_own,
            manifests,
        })
    }
}

fn refusal(store: &Store, newest: &Manifest, record: &Record) -> String {
    let location = store.location();
    let number = newest.number;
    let whose = if newest.writer == record.writer {
        "by a copy of this data directory, or by this one before it was set back"
    } else {
        "by another data directory"
    };
    format!(
        "the history at {location} is not this directory's: its newest manifest, {number}, was written {whose}. If that node still \
         runs, give this one its own place. If it is gone, restore its newest copy into an empty directory (`abide restore --from`). \
         Only if this directory is newer than that copy, start it with --take-over"
    )
}

/// What a session reads when it is refused.
pub(crate) fn superseded(store: &Store, by: &Manifest) -> String {
    format!(
        "the history at {} was taken over: manifest {} was written by the data directory {}. This node uploads nothing any more. \
         Stop one of the two nodes",
        store.location(),
        by.number,
        by.writer
    )
}
