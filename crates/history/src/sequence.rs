//! The pieces of the tail in a store, by number.

use std::collections::BTreeMap;

use crate::{
    Error, Store, key,
    piece::{HEADER_BYTES, Piece},
    store::Entry,
};

/// What a listing says of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only begins a session.
    Begins,
    HasPart,
}

/// All pieces.
pub(crate) async fn all(store: &Store) -> Result<BTreeMap<u64, Kind>, Error> {
    Ok(numbered(store.list(key::TAIL).await?))
}

/// The pieces from a number on.
pub(crate) async fn from(store: &Store, number: u64) -> Result<BTreeMap<u64, Kind>, Error> {
    let before = key::piece(number.saturating_sub(1));
    let mut pieces = numbered(store.list_after(key::TAIL, &before).await?);
    Ok(pieces.split_off(&number))
}

fn numbered(entries: Vec<Entry>) -> BTreeMap<u64, Kind> {
    let entries = entries.into_iter().filter_map(|entry| {
        let kind = if entry.bytes <= HEADER_BYTES as u64 {
            Kind::Begins
        } else {
            Kind::HasPart
        };
        Some((key::number_in(key::TAIL, &entry.key)?, kind))
    });
    entries.collect()
}

/// The piece of a number, if it is there.
pub(crate) async fn piece(store: &Store, number: u64) -> Result<Option<Piece>, Error> {
    let bytes = store.read(&key::piece(number)).await?;
    bytes.map(|bytes| Piece::decode(number, &bytes)).transpose()
}
