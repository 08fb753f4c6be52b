//! Catalogues of the runs that a cluster shares, in case that what lists the runs is lost.

use bytes::Bytes;
use object_store::PutMode;
use tracing::warn;

use crate::{Error, Store, key, key::number_in, store::Creation};

/// How many are kept. Only the newest counts, unless a writer was suspended before it wrote an older one.
const KEPT: usize = 3;

/// Writes a catalogue, and removes old ones. `number` is above those of all earlier catalogues.
///
/// # Errors
/// There is one with this number or a higher one, or the store does not answer.
pub async fn put_catalogue(store: &Store, number: u64, catalogue: Bytes) -> Result<(), Error> {
    let mut numbers = numbers(store).await?;
    if numbers.last() >= Some(&number) {
        return Err(Error::store(
            format!("writing catalogue {number}"),
            "the store has a later one",
        ));
    }
    let key = key::catalogue(number);
    if store.create(&key, catalogue.clone()).await? != Creation::Made {
        // Another writes under this name, or the store cannot create only.
        store
            .put(&key, catalogue.clone(), PutMode::Overwrite)
            .await?;
        if store.read(&key).await? != Some(catalogue) {
            let action = format!("writing catalogue {number}");
            return Err(Error::store(action, "the store does not have it"));
        }
    }
    numbers.truncate((numbers.len() + 1).saturating_sub(KEPT));
    let old: Vec<_> = numbers.into_iter().map(key::catalogue).collect();
    if let Err(error) = store.delete(&old).await {
        warn!(%error, "old catalogues of the cluster stay in the object store");
    }
    Ok(())
}

/// The newest catalogue; `None` if there is none.
///
/// # Errors
/// The store does not answer, or the catalogue cannot be read with the key.
pub async fn newest_catalogue(store: &Store) -> Result<Option<Bytes>, Error> {
    match numbers(store).await?.last() {
        Some(newest) => store.read(&key::catalogue(*newest)).await,
        None => Ok(None),
    }
}

/// Their numbers, in order.
async fn numbers(store: &Store) -> Result<Vec<u64>, Error> {
    let entries = store.list(key::CATALOGUES).await?;
    let numbers = entries
        .iter()
        .filter_map(|entry| number_in(key::CATALOGUES, &entry.key));
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::RealMachine;

    #[tokio::test]
    async fn the_newest_catalogue_is_found_and_a_late_one_is_refused() {
        let objects = Arc::new(InMemory::new());
        let location = "s3://bucket".parse().unwrap();
        let store = Store::of(objects, Arc::new(RealMachine), &location);
        assert_eq!(newest_catalogue(&store).await.unwrap(), None);
        for number in [3, 10, 200, 201, 4096] {
            let text = format!("{number}").into_bytes();
            put_catalogue(&store, number, text.into()).await.unwrap();
        }
        for late in [4, 4095, 4096] {
            let put = put_catalogue(&store, late, Bytes::from_static(b"late")).await;
            assert!(put.unwrap_err().to_string().contains("a later one"));
        }
        let newest = newest_catalogue(&store).await.unwrap();
        assert_eq!(newest.as_deref(), Some(&b"4096"[..]));
        assert_eq!(numbers(&store).await.unwrap(), [200, 201, 4096]);
    }
}
