//! Writes a run, object by object.

use super::{ABOUT_CRC, FOOTER_BYTES, WRITE_BYTES};
use crate::archive::about::About;
use crate::archive::block::Packer;
use crate::archive::entry::Entry;
use crate::archive::filter;
use crate::archive::index::{INDEX_BLOCK_ENTRIES, IndexEntry, Newest, encode_block};
use crate::archive::page_map::{Mapper, PageMap};
use crate::archive::section::{self, Section};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, ObjectKey, Page};
use crate::limits::{ARCHIVE_BLOCK_BYTES, ARCHIVE_BLOCKS_PER_THREAD};
use crate::manifest::{Manifest, RunMeta};
use crate::parallel;
use crate::sync::Mutex;
use bytes::BufMut;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

    /// As [`Mapper::hot_pages_wanted`].
    pub(crate) fn hot_pages_wanted(&self, key: ObjectKey) -> Option<CommitNo> {
        self.mapper.hot_pages_wanted(key)
    }

    /// As [`Mapper::complete_hot_pages`].
    pub(crate) fn complete_hot_pages(
        &mut self,
        content: impl FnMut(u32) -> Result<Page>,
    ) -> Result<()> {
        self.mapper.complete_hot_pages(content)
    }

    /// As [`Mapper::add_hot_pages`].
    pub(crate) fn add_hot_pages(&mut self, earlier: &PageMap) {
        self.mapper.add_hot_pages(earlier);
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

fn writing(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("writing {}", path.display()), error)
}
