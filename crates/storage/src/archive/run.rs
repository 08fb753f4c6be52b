//! A run: one immutable file of the archive. It holds the history of every object that was written in a range of the
//! log or, as a **base**, one snapshot of each object.
//!
//! ```text
//! header | blocks of entries, sorted by object and position | sections: index, filter, about, page maps | table of sections | footer
//! ```
//!
//! Header, 64 bytes: `abidearc`, version u32, level u32, run number u64, the log's range u64 and u64, zeros, CRC-32C of bytes
//! 0–59 at 60. Footer, 40 bytes: `abideidx`, position of the table of sections u64, number of objects u64, length of the file
//! u64, length of the table u32, CRC-32C of the bytes before u32.

use super::about::About;
use super::block::{BLOCK_HEADER, BlockHeader, Packer};
use super::entry::Entry;
use super::filter::{self, FILTER_BLOCK};
use super::index::{
    INDEX_BLOCK_ENTRIES, INDEX_BLOCK_HEADER, INDEX_ENTRY, IndexEntry, Newest, decode_block,
    encode_block,
};
use super::page_map::{self, LIST_HEADER, Mapper, PageMap};
use super::section::{self, Section};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::ObjectKey;
use crate::limits::{ARCHIVE_BLOCK_BYTES, ARCHIVE_BLOCKS_PER_THREAD};
use crate::manifest::{Manifest, RunMeta};
use crate::options::StoreOptions;
use crate::parallel;
use crate::sync::Mutex;
use bytes::{Buf, BufMut};
use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the format of runs.
pub(crate) const RUN_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"abidearc";
const FOOTER_MAGIC: &[u8; 8] = b"abideidx";
const HEADER_BYTES: usize = 64;
const FOOTER_BYTES: usize = 40;
/// The section `about` begins with the CRC-32C of its text.
const ABOUT_CRC: usize = 4;
const INDEX_BLOCK: usize = INDEX_BLOCK_HEADER + INDEX_BLOCK_ENTRIES * INDEX_ENTRY;
/// Written at once.
const WRITE_BYTES: usize = 1 << 20;

impl RunMeta {
    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut fields = &mut header[..];
        fields.put_slice(MAGIC);
        fields.put_u32_le(RUN_VERSION);
        fields.put_u32_le(self.level);
        fields.put_u64_le(self.number);
        fields.put_u64_le(self.from);
        fields.put_u64_le(self.to);
        let crc = crc32c::crc32c(&header[..HEADER_BYTES - 4]);
        (&mut header[HEADER_BYTES - 4..]).put_u32_le(crc);
        header
    }

    fn footer(&self, table: Section) -> [u8; FOOTER_BYTES] {
        let mut footer = [0; FOOTER_BYTES];
        let mut fields = &mut footer[..];
        fields.put_slice(FOOTER_MAGIC);
        fields.put_u64_le(table.at);
        fields.put_u64_le(self.objects);
        fields.put_u64_le(self.bytes);
        fields.put_u32_le(table.bytes as u32);
        let crc = crc32c::crc32c(&footer[..FOOTER_BYTES - 4]);
        (&mut footer[FOOTER_BYTES - 4..]).put_u32_le(crc);
        footer
    }
}

/// Writes a run, object by object, in the archive's order.
pub(crate) struct RunWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    meta: RunMeta,
    /// One for each thread that compresses.
    packers: Vec<Mutex<Packer>>,
    /// The file offset of the bytes in `out`.
    at: u64,
    out: Vec<u8>,
    /// The block being filled.
    raw: Vec<u8>,
    /// Blocks waiting for compression.
    waiting: Vec<Vec<u8>>,
    /// Empty buffers for the next blocks.
    spare: Vec<Vec<u8>>,
    /// The file offsets of the compressed blocks.
    blocks: Vec<u64>,
    /// Until a block's offset is known, its entries hold the block's number.
    index: Vec<IndexEntry>,
    object: Option<IndexEntry>,
    mapper: Mapper,
    about: About,
    /// The unique keys of all namespaces.
    names: Vec<String>,
    finished: bool,
}

impl RunWriter {
    /// Begins a run. `meta` holds what is known beforehand: number, level, kind and range; `manifest` has the unique keys
    /// of the namespaces. The output does not depend on the number of compression threads.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        manifest: &Manifest,
        dir: &Path,
        meta: RunMeta,
        level: i32,
        threads: usize,
    ) -> Result<Self> {
        let path = dir.join(RunMeta::file_name(meta.number));
        let begin = || {
            let file = disk.open(&path, OpenMode::Create)?;
            file.set_len(0)?;
            let packers = (0..threads).map(|_| Packer::new(level).map(Mutex::new));
            Ok((file, packers.collect::<io::Result<_>>()?))
        };
        let (file, packers) = begin().map_err(|error| writing(&path, &error))?;
        Ok(Self {
            out: meta.header().to_vec(),
            disk,
            path,
            file,
            meta,
            packers,
            at: 0,
            raw: Vec::new(),
            waiting: Vec::new(),
            spare: Vec::new(),
            blocks: Vec::new(),
            index: Vec::new(),
            object: None,
            mapper: Mapper::default(),
            about: About::default(),
            names: manifest.namespaces.clone(),
            finished: false,
        })
    }

    /// Adds an entry. Entries of one object are added together and in order, followed by [`Self::end_object`].
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let block = (self.blocks.len() + self.waiting.len()) as u64;
        let in_block = self.raw.len();
        let object = self
            .object
            .get_or_insert_with(|| IndexEntry::begin(entry.head.key, block, in_block));
        object.count(&entry.head);
        self.mapper.add(entry, block, in_block);
        let generation = &mut self.about.generation;
        *generation = entry.head.position.generation.0.max(*generation);
        entry.encode(&mut self.raw);
        self.meta.first_millis = self.meta.first_millis.min(entry.head.unix_millis);
        self.meta.last_millis = self.meta.last_millis.max(entry.head.unix_millis);
        if self.raw.len() >= ARCHIVE_BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    /// Ends an object's entries. The index says how they leave it.
    pub(crate) fn end_object(&mut self, newest: Newest) {
        if let Some(object) = self.object.take() {
            self.mapper.end_object(object.key);
            self.about.includes(object.key.namespace, &self.names);
            self.index.push(IndexEntry { newest, ..object });
        }
    }

    fn end_block(&mut self) -> Result<()> {
        if !self.raw.is_empty() {
            let next = self.spare.pop().unwrap_or_default();
            self.waiting.push(std::mem::replace(&mut self.raw, next));
        }
        let enough = match self.packers.len() {
            1 => 1,
            threads => threads * ARCHIVE_BLOCKS_PER_THREAD,
        };
        if self.waiting.len() >= enough {
            self.compress()?;
        }
        Ok(())
    }

    /// Compresses the waiting blocks, in order.
    fn compress(&mut self) -> Result<()> {
        let threads = self.packers.len();
        let share = self.waiting.len().div_ceil(threads).max(1);
        let shares: Vec<_> = self.waiting.chunks(share).collect();
        let packers = &self.packers;
        let packed = parallel::on_threads(shares.len(), |number| {
            let mut packer = packers[number].lock();
            let (mut out, mut lengths) = (Vec::new(), Vec::new());
            for raw in shares.get(number).copied().unwrap_or_default() {
                let start = out.len();
                packer.pack(raw, &mut out)?;
                lengths.push(out.len() - start);
            }
            Ok((out, lengths))
        });
        for packed in packed {
            let (bytes, lengths) =
                packed.map_err(|error: io::Error| writing(&self.path, &error))?;
            let mut at = self.at + self.out.len() as u64;
            for length in lengths {
                self.blocks.push(at);
                at += length as u64;
            }
            self.out.extend_from_slice(&bytes);
        }
        let done = self.waiting.drain(..).map(|mut raw| {
            raw.clear();
            raw
        });
        self.spare.extend(done);
        if self.out.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_at(&self.out, self.at);
        written.map_err(|error| writing(&self.path, &error))?;
        self.at += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// True if nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Writes the sections and the footer. When it returns, the file and its name are durable.
    pub(crate) fn finish(mut self) -> Result<RunMeta> {
        self.end_block()?;
        self.compress()?;
        let objects = std::mem::take(&mut self.index);
        self.meta.objects = objects.len() as u64;
        let index = self.section(|run| run.write_index(&objects))?;
        let keys = objects.iter().map(|object| object.key);
        let filter = self.section(|run| {
            filter::encode(keys, &mut run.out);
            Ok(())
        })?;
        let about = self.section(Self::write_about)?;
        let page_maps = self.section(|run| {
            let mapper = std::mem::take(&mut run.mapper);
            let written = mapper.finish(&run.blocks, &mut run.packers[0].lock(), &mut run.out);
            written.map_err(|error| writing(&run.path, &error))
        })?;
        let table = self.section(|run| {
            section::encode([index, filter, about, page_maps], &mut run.out);
            Ok(())
        })?;
        self.meta.bytes = self.end() + FOOTER_BYTES as u64;
        let footer = self.meta.footer(table);
        self.out.extend_from_slice(&footer);
        self.flush()?;
        self.finished = true;
        self.sync()?;
        Ok(self.meta.clone())
    }

    fn end(&self) -> u64 {
        self.at + self.out.len() as u64
    }

    fn section(&mut self, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<Section> {
        let at = self.end();
        write(self)?;
        let bytes = self.end() - at;
        Ok(Section { at, bytes })
    }

    fn write_index(&mut self, objects: &[IndexEntry]) -> Result<()> {
        for block in objects.chunks(INDEX_BLOCK_ENTRIES) {
            let mut block = block.to_vec();
            for entry in &mut block {
                entry.block = self.blocks[entry.block as usize];
            }
            encode_block(&block, &mut self.out);
            if self.out.len() >= WRITE_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn write_about(&mut self) -> Result<()> {
        let about = About {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            level: self.meta.level,
            base: self.meta.base,
            from: self.meta.from,
            to: self.meta.to,
            first_millis: self.meta.first_millis,
            last_millis: self.meta.last_millis,
            ..std::mem::take(&mut self.about)
        };
        let start = self.out.len();
        self.out.put_u32_le(0);
        serde_json::to_writer(&mut self.out, &about)
            .map_err(|error| writing(&self.path, &error.into()))?;
        let crc = crc32c::crc32c(&self.out[start + ABOUT_CRC..]);
        (&mut self.out[start..]).put_u32_le(crc);
        Ok(())
    }
}

impl RunWriter {
    /// An error here is never final for the node: nothing is built on an unfinished run, and the next attempt writes
    /// another file.
    fn sync(&self) -> Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let names = self.disk.names(dir);
        let names = names.map_err(|error| writing(&self.path, &error))?;
        let synced = self.file.sync().and_then(|()| names());
        synced.map_err(|error| {
            // An error of a sync says nothing about space.
            let told = format!("syncing {}: {error}", self.path.display());
            Error::new(ErrorKind::Io, told)
        })
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if !self.finished {
            // An incomplete run is useless; if it cannot be removed now, the next start removes it.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Recomputes every checksum of a run: header, footer, blocks, index.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) else {
        return;
    };
    crate::fuzzing::put_crc(bytes, HEADER_BYTES - 4, 0..HEADER_BYTES - 4);
    let crc_at = bytes.len() - 4;
    crate::fuzzing::put_crc(bytes, crc_at, footer..crc_at);
    let mut fields = &bytes[footer + 8..];
    let (table, _, _) = (
        fields.get_u64_le() as usize,
        fields.get_u64_le(),
        fields.get_u64_le(),
    );
    let table = table..table.saturating_add(fields.get_u32_le() as usize);
    let Some(listed) = bytes.get_mut(table) else {
        return;
    };
    section::seal(listed);
    let Some([index, filter, about, page_maps]) = section::decode(listed) else {
        return;
    };
    let range = |of: Section| of.at as usize..of.at.saturating_add(of.bytes) as usize;
    if let Some(blocks) = bytes.get_mut(..index.at as usize) {
        let mut at = HEADER_BYTES;
        while let Some(length) = blocks.get_mut(at..).and_then(super::block::seal) {
            at += length;
        }
    }
    for block in bytes
        .get_mut(range(index))
        .unwrap_or_default()
        .chunks_mut(INDEX_BLOCK)
    {
        super::index::seal(block);
    }
    filter::seal(bytes.get_mut(range(filter)).unwrap_or_default());
    page_map::seal(bytes.get_mut(range(page_maps)).unwrap_or_default());
    let about = bytes.get_mut(range(about)).unwrap_or_default();
    if about.len() >= ABOUT_CRC {
        let end = about.len();
        crate::fuzzing::put_crc(about, 0, ABOUT_CRC..end);
    }
}

fn writing(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("writing {}", path.display()), error)
}

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
        let end = listed.at.checked_add(u64::from(listed.bytes));
        if end.is_none_or(|end| end > self.page_maps.bytes) {
            return Err(damaged());
        }
        let bytes = self.bytes(self.page_maps.at + listed.at, listed.bytes as usize)?;
        PageMap::decode(&bytes).ok_or_else(damaged)
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

    fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>> {
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
