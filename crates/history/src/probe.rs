//! Whether a store does what ownership relies on.

use bytes::Bytes;
use object_store::PutMode;

use crate::{Error, Session, Store, store::Creation};

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// It refuses to create what exists. Without, two nodes that use one place may replace each other's manifests without noticing
    /// it: use another store, or make sure yourself that each place has one node.
    pub refuses_overwrites: bool,
    /// The credentials permit to delete. Without, which may be intended, the store keeps all that was ever written.
    pub deletes: bool,
}

const FIRST: &[u8] = b"an object that a probe creates";
const SECOND: &[u8] = b"an object that must be refused";

impl Probe {
    /// Creates an object, tries to create it again, reads a part of it, lists it and deletes it. A store that was probed is not asked
    /// again.
    ///
    /// # Errors
    /// If the store does not answer, or lacks what nothing can do without: reading what was written, a part of it, and listing it.
    pub async fn run(store: &Store) -> Result<Self, Error> {
        if let Some(probe) = store.probe() {
            return Ok(probe);
        }
        let store = &store.without_key();
        let key = format!("probes/{}", Session::random(store.machine())?);
        let result = Self::try_it(store, &key).await;
        let cleaned = store.delete(std::slice::from_ref(&key)).await;
        let refuses_overwrites = result?;
        let deletes = match cleaned {
            Err(error) if error.is_denied() => false,
            cleaned => cleaned.map(|()| true)?,
        };
        let probe = Self {
            refuses_overwrites,
            deletes,
        };
        store.set_probe(probe);
        Ok(probe)
    }

    /// Whether the store refuses to create what exists.
    async fn try_it(store: &Store, key: &str) -> Result<bool, Error> {
        let lacks =
            |what: &str| Error::store(format!("{} {what}", store.location()), key.to_owned());
        let create = |content| store.put(key, Bytes::from_static(content), PutMode::Create);
        // A response that was lost is an error here, and the next attempt has another key.
        match create(FIRST).await? {
            Creation::Made => {}
            Creation::Refused => return Err(lacks("refuses to create what does not exist")),
            Creation::Unknown => {
                let content = Bytes::from_static(FIRST);
                store.put(key, content, PutMode::Overwrite).await?;
                Self::read_it(store, key, FIRST, lacks).await?;
                return Ok(false);
            }
        }
        let again = create(SECOND).await?;
        // What is there counts, and not what the store says.
        let there = store.read(key).await?;
        let there = there.ok_or_else(|| lacks("does not have what it has confirmed"))?;
        let refuses_overwrites = there == FIRST;
        if refuses_overwrites != (again == Creation::Refused) {
            return Err(lacks("says other than it does when an object exists"));
        }
        let content = if refuses_overwrites { FIRST } else { SECOND };
        Self::read_it(store, key, content, lacks).await?;
        Ok(refuses_overwrites)
    }

    async fn read_it(
        store: &Store,
        key: &str,
        content: &[u8],
        lacks: impl Fn(&str) -> Error,
    ) -> Result<(), Error> {
        let part = store.read_range(key, 3..9).await?;
        if part.as_deref() != content.get(3..9) {
            return Err(lacks("does not read a part of an object"));
        }
        let listed = store.list("probes").await?;
        if !listed.iter().any(|entry| entry.key == key) {
            return Err(lacks("does not list an object that it has"));
        }
        Ok(())
    }
}
