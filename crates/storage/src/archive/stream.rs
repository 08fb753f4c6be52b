//! Reading runs in the archive's order: one run as a [`Stream`], several as a [`Merged`] one.

use super::entry::{Entry, Head};
use super::index::IndexEntry;
use super::run::RunReader;
use crate::error::{ErrorKind, Result};
use crate::ident::ObjectKey;
use std::ops::Range;

/// The entries of one run, or those of one object in it.
pub(crate) struct Stream {
    reader: RunReader,
    /// The number in the run of the object after this one; `None` for a stream of a single object.
    next_object: Option<u64>,
    object: Option<IndexEntry>,
    /// Remaining entries of the object after the current one.
    left: u32,
    block: Vec<u8>,
    next_block: u64,
    position: usize,
    current: Option<(Head, Range<usize>)>,
    salvage: Option<Salvage>,
}

/// Skips unreadable entries.
struct Salvage {
    /// Skip on any error; otherwise only on damage.
    any_error: bool,
    /// The skip has been logged.
    said: bool,
}

impl Stream {
    /// All entries of a run.
    pub(crate) fn run(reader: RunReader) -> Result<Self> {
        Self::from(reader, 0)
    }

    /// The entries of a run from the object with this number on.
    pub(crate) fn from(reader: RunReader, number: u64) -> Result<Self> {
        let mut stream = Self::new(reader, Some(number), None);
        stream.skip()?;
        Ok(stream)
    }

    /// The readable entries of a run. The rest of an object is skipped from its first damaged entry on or, with
    /// `any_error`, from the first that cannot be read for any reason.
    pub(crate) fn salvage(reader: RunReader, any_error: bool) -> Result<Self> {
        let said = false;
        let mut stream = Self::new(reader, Some(0), Some(Salvage { any_error, said }));
        let begun = stream.skip();
        stream.pass_over(begun)?;
        Ok(stream)
    }

    /// The entries of one object.
    pub(crate) fn object(reader: RunReader, object: IndexEntry) -> Result<Self> {
        let mut stream = Self::new(reader, None, None);
        stream.seek(object)?;
        stream.step()?;
        Ok(stream)
    }

    fn new(reader: RunReader, next_object: Option<u64>, salvage: Option<Salvage>) -> Self {
        Self {
            reader,
            next_object,
            object: None,
            left: 0,
            block: Vec::new(),
            next_block: 0,
            position: 0,
            current: None,
            salvage,
        }
    }

    /// The current entry; `None` at the end.
    pub(crate) fn current(&self) -> Option<Entry<'_>> {
        let (head, payload) = self.current.as_ref()?;
        Some(Entry {
            head: *head,
            payload: &self.block[payload.clone()],
        })
    }

    /// How much of the file has been read, in bytes.
    pub(crate) fn reached(&self) -> u64 {
        self.next_block
    }

    /// Advances to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        let stepped = self.step();
        self.pass_over(stepped)
    }

    /// After an error, continues with the next readable object, if the stream salvages.
    fn pass_over(&mut self, mut stepped: Result<()>) -> Result<()> {
        while let (Err(error), Some(salvage)) = (&stepped, &mut self.salvage) {
            if error.kind() != ErrorKind::Damaged && !salvage.any_error {
                break;
            }
            if !salvage.said {
                tracing::error!(%error, "skipping unreadable history of objects");
                salvage.said = true;
            }
            stepped = self.skip();
        }
        stepped
    }

    /// Advances to the first entry of the next object.
    fn skip(&mut self) -> Result<()> {
        self.current = None;
        self.left = 0;
        let Some(number) = self.next_object else {
            return Ok(());
        };
        self.next_object = Some(number + 1);
        match self.reader.nth(number)? {
            Some(object) => self.seek(object).and_then(|()| self.step()),
            None => Ok(()),
        }
    }

    /// Positions the stream at the first entry of an object.
    fn seek(&mut self, object: IndexEntry) -> Result<()> {
        (self.block, self.next_block) = self.reader.block(object.block)?;
        self.position = object.in_block as usize;
        self.left = object.entries;
        self.object = Some(object);
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        self.current = None;
        while self.left == 0 {
            let Some(number) = self.next_object else {
                return Ok(());
            };
            let Some(object) = self.reader.nth(number)? else {
                return Ok(());
            };
            self.next_object = Some(number + 1);
            self.left = object.entries;
            self.object = Some(object);
        }
        if self.position >= self.block.len() {
            (self.block, self.next_block) = self.reader.block(self.next_block)?;
            self.position = 0;
        }
        let entry = self.block.get(self.position..).and_then(Entry::decode);
        let of_object = |entry: &Entry<'_>| {
            self.object
                .is_some_and(|object| object.key == entry.head.key)
        };
        let Some((entry, length)) = entry.filter(|(entry, _)| of_object(entry)) else {
            let at = self.next_block;
            return Err(self
                .reader
                .damaged(format_args!("an entry before position {at}")));
        };
        let end = self.position + length;
        self.current = Some((entry.head, end - entry.payload.len()..end));
        self.position = end;
        self.left -= 1;
        Ok(())
    }
}

/// Several streams as one.
pub(crate) struct Merged(Vec<Stream>);

impl Merged {
    /// `streams` from the oldest to the newest.
    pub(crate) fn new(streams: Vec<Stream>) -> Self {
        Self(streams)
    }

    /// The stream that holds the next entry.
    fn next_stream(&self) -> Option<usize> {
        let places = self.0.iter().enumerate();
        places
            .filter_map(|(at, stream)| Some((stream.current.as_ref()?.0.place(), at)))
            .min()
            .map(|(_, at)| at)
    }

    /// The object of the next entry.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        self.current().map(|entry| entry.head.key)
    }

    /// The next entry.
    pub(crate) fn current(&self) -> Option<Entry<'_>> {
        self.0[self.next_stream()?].current()
    }

    /// Advances to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        match self.next_stream() {
            Some(at) => self.0[at].advance(),
            None => Ok(()),
        }
    }

    /// Advances to the next object.
    pub(crate) fn skip(&mut self, key: ObjectKey) -> Result<()> {
        while self.key() == Some(key) {
            self.advance()?;
        }
        Ok(())
    }

    /// Returns whether anything was skipped because it cannot be read.
    pub(crate) fn has_skipped(&self) -> bool {
        let mut salvages = self.0.iter().filter_map(|stream| stream.salvage.as_ref());
        salvages.any(|salvage| salvage.said)
    }

    /// The object's index entry in the newest stream positioned at it.
    pub(crate) fn newest_index(&self, key: ObjectKey) -> Option<IndexEntry> {
        let standing = self.0.iter().rev().filter(|s| s.current.is_some());
        standing.filter_map(|s| s.object).find(|o| o.key == key)
    }
}
