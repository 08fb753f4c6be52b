//! Reading runs in the archive's order: one run as a [`Stream`], several as a [`Merged`] one.

use super::entry::{Entry, Head};
use super::index::IndexEntry;
use super::run::RunReader;
use crate::error::Result;
use crate::ident::ObjectKey;
use std::ops::Range;

/// The entries of one run, or those of one object in it.
pub(crate) struct Stream {
    reader: RunReader,
    /// The number in the run of the object after this one; `None` if only one object was asked for.
    next_object: Option<u64>,
    object: IndexEntry,
    /// Entries of the object behind the current one.
    left: u32,
    block: Vec<u8>,
    next_block: u64,
    position: usize,
    current: Option<(Head, Range<usize>)>,
}

impl Stream {
    /// All entries of a run.
    pub(crate) fn run(mut reader: RunReader) -> Result<Option<Self>> {
        match reader.nth(0)? {
            Some(first) => Self::begin(reader, first, Some(1)).map(Some),
            None => Ok(None),
        }
    }

    /// The entries of one object.
    pub(crate) fn object(reader: RunReader, object: IndexEntry) -> Result<Self> {
        Self::begin(reader, object, None)
    }

    fn begin(reader: RunReader, object: IndexEntry, next_object: Option<u64>) -> Result<Self> {
        let (block, next_block) = reader.block(object.block)?;
        let mut stream = Self {
            reader,
            next_object,
            object,
            left: object.entries,
            block,
            next_block,
            position: object.in_block as usize,
            current: None,
        };
        stream.advance()?;
        Ok(stream)
    }

    /// The entry at which the stream stands; `None` at its end.
    pub(crate) fn current(&self) -> Option<Entry<'_>> {
        let (head, payload) = self.current.as_ref()?;
        Some(Entry {
            head: *head,
            payload: &self.block[payload.clone()],
        })
    }

    /// What the index says of the current entry's object.
    pub(crate) fn index(&self) -> &IndexEntry {
        &self.object
    }

    /// Goes to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        self.current = None;
        while self.left == 0 {
            let Some(number) = self.next_object else {
                return Ok(());
            };
            let Some(object) = self.reader.nth(number)? else {
                return Ok(());
            };
            self.next_object = Some(number + 1);
            self.object = object;
            self.left = object.entries;
        }
        if self.position >= self.block.len() {
            (self.block, self.next_block) = self.reader.block(self.next_block)?;
            self.position = 0;
        }
        let entry = self.block.get(self.position..).and_then(Entry::decode);
        let entry = entry.filter(|(entry, _)| entry.head.key == self.object.key);
        let Some((entry, length)) = entry else {
            let key = self.object.key;
            return Err(self
                .reader
                .damaged(format_args!("an entry of object {key}")));
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

    /// Goes to the entry after it.
    pub(crate) fn advance(&mut self) -> Result<()> {
        match self.next_stream() {
            Some(at) => self.0[at].advance(),
            None => Ok(()),
        }
    }

    /// What the newest stream that stands at an object says of it.
    pub(crate) fn newest_index(&self, key: ObjectKey) -> Option<IndexEntry> {
        let standing = self
            .0
            .iter()
            .rev()
            .filter(|stream| stream.current.is_some());
        standing.map(|s| *s.index()).find(|index| index.key == key)
    }
}
