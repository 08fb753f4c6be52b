//! Reading the tail of a copy.

use std::collections::VecDeque;

use futures_util::future::try_join_all;

use crate::{
    Error, Manifest, Session, Store, claim, download::again, key, piece::Piece, sequence,
    source::Part,
};

/// Pieces that are read at once, each in memory.
const AT_ONCE: usize = 8;

/// The part of the log that continues the runs of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailCopy {
    /// The number of its pieces.
    pub pieces: u64,
    /// Their length.
    pub bytes: u64,
    /// The position up to which the runs and these pieces have the log.
    pub end: u64,
    /// There are later pieces, and what is between was never shipped: the node could not reach the store for a while.
    pub has_gap: bool,
}

/// Reads the pieces that were there when it began, one after the other.
pub(crate) struct TailReader<'a> {
    store: &'a Store,
    /// The manifest that they continue.
    manifest: u64,
    session: Option<Session>,
    /// The numbers of those that are to be read.
    numbers: std::ops::Range<u64>,
    /// Those that were read ahead.
    ahead: VecDeque<Piece>,
    read: TailCopy,
}

impl<'a> TailReader<'a> {
    /// Of a manifest, if it is the newest: what an older one needs may be gone.
    pub(crate) async fn new(
        store: &'a Store,
        manifest: &Manifest,
        is_newest: bool,
    ) -> Result<Self, Error> {
        let mark = manifest.tail.filter(|_| is_newest);
        let numbers = match mark {
            Some(mark) => {
                let there = again(store, || sequence::from(store, mark.number)).await?;
                let newest = there.last_key_value();
                mark.number..newest.map_or(mark.number, |(newest, _)| newest + 1)
            }
            None => 0..0,
        };
        Ok(Self {
            store,
            manifest: manifest.number,
            session: mark.map(|mark| mark.session),
            numbers,
            ahead: VecDeque::new(),
            read: TailCopy {
                end: manifest.end,
                ..TailCopy::default()
            },
        })
    }

    /// What was read so far.
    pub(crate) fn read(&self) -> TailCopy {
        self.read
    }

    /// The next part that continues what was read, and the number of its piece.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, Part)>, Error> {
        while let Some(piece) = self.piece().await? {
            if Some(piece.session) != self.session {
                // What follows is another session's.
                break;
            }
            let Some(part) = piece.part else {
                continue;
            };
            if part.end <= self.read.end {
                continue;
            }
            if part.first > self.read.end {
                self.read.has_gap = true;
                break;
            }
            self.must_be_newest(piece.manifest).await?;
            self.read.pieces += 1;
            self.read.bytes += part.bytes.len() as u64;
            self.read.end = part.end;
            return Ok(Some((piece.number, part)));
        }
        self.numbers = 0..0;
        self.ahead.clear();
        Ok(None)
    }

    /// A piece that knows a later manifest shows that this is lost, or has come since.
    async fn must_be_newest(&self, known: u64) -> Result<(), Error> {
        if known > self.manifest {
            again(self.store, || claim::manifest(self.store, known)).await?;
        }
        Ok(())
    }

    /// The next piece, of whatever session.
    async fn piece(&mut self) -> Result<Option<Piece>, Error> {
        if self.ahead.is_empty() {
            let numbers = self.numbers.by_ref().take(AT_ONCE);
            let store = self.store;
            let read = numbers.map(|number| async move {
                let piece = again(store, || sequence::piece(store, number)).await?;
                let key = key::piece(number);
                piece.ok_or(Error::Missing { key })
            });
            self.ahead = try_join_all(read).await?.into();
        }
        Ok(self.ahead.pop_front())
    }
}
