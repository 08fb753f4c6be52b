//! Reads a run where it is, on the disk or in a store elsewhere.

use super::{ABOUT_CRC, FOOTER_BYTES, FOOTER_MAGIC, HEADER_BYTES, INDEX_BLOCK, MAGIC, RUN_VERSION};
use crate::archive::about::About;
use crate::archive::block::{BLOCK_HEADER, BlockHeader};
use crate::archive::filter::{self, FILTER_BLOCK};
use crate::archive::index::{
    INDEX_BLOCK_ENTRIES, INDEX_BLOCK_HEADER, INDEX_ENTRY, IndexEntry, decode_block,
};
use crate::archive::page_map::{self, LIST_HEADER, PageMap};
use crate::archive::section::{self, Section};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::ObjectKey;
use crate::manifest::RunMeta;
use crate::options::StoreOptions;
use bytes::Buf;
use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads a run. Every byte that it returns has passed a checksum; a failed checksum is an error of kind `Damaged`.
#[derive(Clone)]
pub(crate) struct RunReader {
    pub(crate) meta: RunMeta,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// It is in a store elsewhere.
    is_remote: bool,
    index: Section,
    filter: Section,
    about: Section,
    page_maps: Section,
    /// The index block read last, with its number.
    cached: Option<(u64, Vec<IndexEntry>)>,
}

impl RunReader {
    /// Opens a run that the manifest lists.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path, meta: &RunMeta) -> Result<Self> {
        let path = dir.join(RunMeta::file_name(meta.number));
        let file = match disk.open(&path, OpenMode::Existing) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(unreadable(&path, "it is missing"));
            }
            file => file.map_err(|error| reading(&path, &error))?,
        };
        Self::begin(meta, path, file, false)
    }

    /// Opens a run that is in a store elsewhere.
    pub(crate) fn open_remote(
        options: &StoreOptions,
        dir: &Path,
        meta: &RunMeta,
        place: &str,
    ) -> Result<Self> {
        let path = dir.join(RunMeta::file_name(meta.number));
        let store = options.remote_runs.as_ref();
        let file = store.map_or_else(
            || Err(io::Error::other("there is no store to read it from")),
            |store| store.open(meta.number, place),
        );
        let file = file.map_err(|error| unreachable(meta.number, &error))?;
        Self::begin(meta, path, file, true)
    }

    fn begin(
        meta: &RunMeta,
        path: PathBuf,
        file: Arc<dyn DiskFile>,
        is_remote: bool,
    ) -> Result<Self> {
        let mut reader = Self {
            meta: meta.clone(),
            path,
            file,
            is_remote,
            index: Section::default(),
            filter: Section::default(),
            about: Section::default(),
            page_maps: Section::default(),
            cached: None,
        };
        let header = reader.bytes(0, HEADER_BYTES)?;
        if header != meta.header() {
            return Err(match other_version(&header) {
                Some(version) => Error::unknown_format(reader.path.display(), version, RUN_VERSION),
                None => reader.damaged("its header"),
            });
        }
        let footer = reader.bytes(meta.bytes.saturating_sub(FOOTER_BYTES as u64), FOOTER_BYTES)?;
        let table = Section {
            at: (&footer[FOOTER_MAGIC.len()..]).get_u64_le(),
            bytes: u64::from((&footer[FOOTER_BYTES - 8..]).get_u32_le()),
        };
        if footer != meta.footer(table) {
            return Err(reader.damaged("its footer"));
        }
        let listed = reader.section(table)?;
        let sections = section::decode(&listed);
        let sections = sections.ok_or_else(|| reader.damaged("its table of sections"))?;
        [reader.index, reader.filter, reader.about, reader.page_maps] = sections;
        Ok(reader)
    }

    /// The bytes of a section.
    fn section(&self, section: Section) -> Result<Vec<u8>> {
        let end = section.at.checked_add(section.bytes);
        if end.is_none_or(|end| end > self.meta.bytes) {
            return Err(self.damaged("a section is not in it"));
        }
        self.bytes(section.at, section.bytes as usize)
    }

    /// Returns an error unless the file ends where the run does.
    pub(crate) fn verify_length(&self) -> Result<()> {
        let bytes = self.file.len().map_err(|error| self.unread(&error))?;
        if bytes == self.meta.bytes {
            return Ok(());
        }
        Err(self.damaged(format_args!(
            "it has {bytes} bytes instead of {}",
            self.meta.bytes
        )))
    }

    /// Reads everything but the entries: damage is an error.
    pub(crate) fn verify_sections(&mut self) -> Result<()> {
        let about = self.about()?;
        let meta = &self.meta;
        if (about.from, about.to, about.level) != (meta.from, meta.to, meta.level) {
            return Err(self.damaged("what it says of itself"));
        }
        let filter = self.section(self.filter)?;
        let (blocks, rest) = filter.as_chunks::<FILTER_BLOCK>();
        if !rest.is_empty() || !blocks.iter().all(filter::is_whole) {
            return Err(self.damaged("its filter"));
        }
        for listed in self.listed_maps()? {
            self.listed_map(&listed)?;
        }
        for number in 0..self.meta.objects {
            let object = self.nth(number)?;
            if let Some(object) = object
                && !self.may_contain(object.key)?
            {
                return Err(self.damaged("an object is not in its filter"));
            }
        }
        Ok(())
    }

    /// What the run says of itself.
    fn about(&self) -> Result<About> {
        let bytes = self.section(self.about)?;
        let text = bytes.split_at_checked(ABOUT_CRC).and_then(|(crc, text)| {
            let whole = (&crc[..]).get_u32_le() == crc32c::crc32c(text);
            whole.then_some(text)
        });
        text.and_then(|text| serde_json::from_slice(text).ok())
            .ok_or_else(|| self.damaged("what it says of itself"))
    }

    /// Where the pages of an object in this run are, if it is large.
    pub(crate) fn page_map(&self, key: ObjectKey) -> Result<Option<PageMap>> {
        let listed = self.listed_maps()?;
        let listed = page_map::find(&listed, key);
        listed.map(|listed| self.listed_map(listed)).transpose()
    }

    fn listed_maps(&self) -> Result<Vec<page_map::Listed>> {
        let damaged = || self.damaged("its page maps");
        let header = self.bytes(self.page_maps.at, LIST_HEADER)?;
        let list = page_map::list_bytes(&header);
        let list = list.filter(|bytes| *bytes as u64 <= self.page_maps.bytes);
        let list = self.bytes(self.page_maps.at, list.ok_or_else(damaged)?)?;
        page_map::decode_list(&list).ok_or_else(damaged)
    }

    fn listed_map(&self, listed: &page_map::Listed) -> Result<PageMap> {
        let damaged = || self.damaged("a page map");
        let bytes = u64::from(listed.bytes) + u64::from(listed.hot_bytes);
        let end = listed.at.checked_add(bytes);
        if end.is_none_or(|end| end > self.page_maps.bytes) {
            return Err(damaged());
        }
        let bytes = self.bytes(self.page_maps.at + listed.at, bytes as usize)?;
        let (map, hot) = bytes.split_at(listed.bytes as usize);
        PageMap::decode(map, hot).ok_or_else(damaged)
    }

    /// Returns whether an object may be in the run.
    fn may_contain(&self, key: ObjectKey) -> Result<bool> {
        let blocks = self.filter.bytes / FILTER_BLOCK as u64;
        let at = self.filter.at + filter::place(key, blocks) * FILTER_BLOCK as u64;
        let mut block = [0; FILTER_BLOCK];
        block.copy_from_slice(&self.bytes(at, FILTER_BLOCK)?);
        filter::may_contain(&block, key).ok_or_else(|| self.damaged("its filter"))
    }

    pub(crate) fn damaged(&self, what: impl std::fmt::Display) -> Error {
        unreadable(&self.path, what)
    }

    /// Something could not be read, which is no damage.
    fn unread(&self, error: &io::Error) -> Error {
        if self.is_remote {
            return unreachable(self.meta.number, error);
        }
        reading(&self.path, error)
    }

    /// Some of its bytes, unchecked.
    pub(crate) fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.file.read_at(&mut bytes, at);
        let read = read.map_err(|error| self.unread(&error))?;
        if read < length {
            return Err(self.damaged("it is too short"));
        }
        Ok(bytes)
    }

    /// The entries of the block at `at`, and the offset of the next block.
    pub(crate) fn block(&self, at: u64) -> Result<(Vec<u8>, u64)> {
        let damaged = || self.damaged(format_args!("the block at {at}"));
        let head = self.bytes(at, BLOCK_HEADER)?;
        let header = BlockHeader::decode(&head).ok_or_else(damaged)?;
        let next = at + (BLOCK_HEADER + header.stored) as u64;
        if next > self.index.at {
            return Err(damaged());
        }
        let stored = self.bytes(at + BLOCK_HEADER as u64, header.stored)?;
        let raw = header.unpack(&stored).ok_or_else(damaged)?;
        Ok((raw, next))
    }

    fn index_blocks(&self) -> u64 {
        self.meta.objects.div_ceil(INDEX_BLOCK_ENTRIES as u64)
    }

    fn index_block(&mut self, number: u64) -> Result<&[IndexEntry]> {
        if self
            .cached
            .as_ref()
            .is_none_or(|(cached, _)| *cached != number)
        {
            let before = number * INDEX_BLOCK_ENTRIES as u64;
            let count = (self.meta.objects - before).min(INDEX_BLOCK_ENTRIES as u64) as usize;
            let at = self.index.at + number * INDEX_BLOCK as u64;
            let bytes = self.bytes(at, INDEX_BLOCK_HEADER + count * INDEX_ENTRY)?;
            let entries = decode_block(&bytes)
                .filter(|entries| entries.len() == count)
                .ok_or_else(|| self.damaged(format_args!("block {number} of its index")))?;
            self.cached = Some((number, entries));
        }
        Ok(self.cached.as_ref().map_or(&[], |(_, entries)| entries))
    }

    /// The object with this number in the run's order.
    pub(crate) fn nth(&mut self, number: u64) -> Result<Option<IndexEntry>> {
        if number >= self.meta.objects {
            return Ok(None);
        }
        let block = self.index_block(number / INDEX_BLOCK_ENTRIES as u64)?;
        Ok(block
            .get((number % INDEX_BLOCK_ENTRIES as u64) as usize)
            .copied())
    }

    /// The number of the first object whose id begins with this byte or a greater one.
    pub(crate) fn first_from(&mut self, byte: u8) -> Result<u64> {
        let (mut low, mut high) = (0, self.meta.objects);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.nth(middle)? {
                // Keys are in the order of shards, the first bits of the ids.
                Some(entry) if entry.key.id[0] < byte => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Finds an object in this run. Fast for keys in ascending order: the block read last and the next one are tried
    /// first.
    pub(crate) fn find(&mut self, key: ObjectKey) -> Result<Option<IndexEntry>> {
        let blocks = self.index_blocks();
        if let Some(last) = self.cached.as_ref().map(|(number, _)| *number) {
            for near in last..blocks.min(last + 2) {
                if self.side_of(near, key)?.is_eq() {
                    return self.find_in(near, key);
                }
            }
        }
        if !self.may_contain(key)? {
            return Ok(None);
        }
        let (mut low, mut high) = (0, blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.side_of(middle, key)? {
                Ordering::Less => high = middle,
                Ordering::Equal => return self.find_in(middle, key),
                Ordering::Greater => low = middle + 1,
            }
        }
        Ok(None)
    }

    /// Whether a key belongs before, in or after an index block.
    fn side_of(&mut self, block: u64, key: ObjectKey) -> Result<Ordering> {
        Ok(match self.index_block(block)? {
            [first, ..] if key < first.key => Ordering::Less,
            [.., last] if key > last.key => Ordering::Greater,
            _ => Ordering::Equal,
        })
    }

    fn find_in(&mut self, block: u64, key: ObjectKey) -> Result<Option<IndexEntry>> {
        let entries = self.index_block(block)?;
        let place = entries.binary_search_by_key(&key, |entry| entry.key);
        Ok(place.ok().map(|place| entries[place]))
    }
}

fn unreadable(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::damaged(format!(
        "the archive is damaged: {} cannot be read ({what}). Objects are not affected, but the history in this file cannot be restored. \
         Restore the file from a backup and restart",
        path.display()
    ))
}

fn unreachable(number: u64, error: &io::Error) -> Error {
    let told = format!(
        "run {number} of the history is in an object store, and cannot be read from it now ({error}): try again"
    );
    Error::new(ErrorKind::Busy, told)
}

fn reading(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("reading {}", path.display()), error)
}

/// The version in a valid header of another format.
fn other_version(header: &[u8]) -> Option<u32> {
    let (mut fields, mut crc) = header.split_at_checked(HEADER_BYTES - 4)?;
    let whole = fields.starts_with(MAGIC) && crc.try_get_u32_le() == Ok(crc32c::crc32c(fields));
    fields.advance(MAGIC.len());
    let version = fields.get_u32_le();
    (whole && version != RUN_VERSION).then_some(version)
}
