//! An object's pages as of some commit, built from the archive: a snapshot or an empty image, followed by the commits
//! in order.
//!
//! After a gap in the commit numbers the image is invalid until the next snapshot, or the begin or end of a life: it
//! never shows pages of different commits together. Pages are kept in memory up to a bound; further pages go to a scratch
//! file, which is removed with the image.

use super::chain::Chain;
use super::entry::{Entry, Head, Kind};
use crate::delta;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Life, Page, ZERO_PAGE};
use crate::limits::PAGE_BYTES;
use crate::overlay::header;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are written to a file at a time.
const WRITE_BYTES: usize = 64 * PAGE_BYTES;

/// See the module.
pub(crate) struct Image {
    disk: Arc<dyn Disk>,
    scratch: PathBuf,
    max_pages: usize,
    pages: FxHashMap<u32, Box<Page>>,
    spilled: Option<Arc<dyn DiskFile>>,
    size: u32,
    chain: Chain,
}

impl Image {
    /// An empty image. Pages beyond `max_pages` go to `scratch`.
    pub(crate) fn new(disk: Arc<dyn Disk>, scratch: PathBuf, max_pages: usize) -> Self {
        Self {
            disk,
            scratch,
            max_pages,
            pages: FxHashMap::default(),
            spilled: None,
            size: 0,
            chain: Chain::Nothing,
        }
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.pages.clear();
        if let Some(file) = &self.spilled {
            file.set_len(0).map_err(|error| self.failed(&error))?;
        }
        self.size = 0;
        self.chain = Chain::Nothing;
        Ok(())
    }

    /// The commit that the image shows; `None` if it shows none.
    pub(crate) fn at(&self) -> Option<&Head> {
        self.chain.at()
    }

    /// The entries applied so far.
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// Sets it to the image of an object before its first commit.
    pub(crate) fn begin(&mut self, template: &[Arc<Page>]) {
        for (page_no, page) in (1..).zip(template) {
            self.pages.insert(page_no, Box::new(**page));
        }
        self.size = template.len() as u32;
    }

    /// Adds a page at the end.
    pub(crate) fn push(&mut self, page: &Page) -> Result<()> {
        self.size += 1;
        self.put(self.size, page)
    }

    /// The size in pages.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Applies the next entry, in archive order.
    pub(crate) fn apply(&mut self, entry: &Entry<'_>) -> Result<()> {
        let head = entry.head;
        let chain = self.chain.then(&head);
        let begins = head.life == Life::Begins && !head.replaces;
        if head.first && (head.kind == Kind::Snapshot || begins) {
            self.reset()?;
        }
        if chain == Chain::Broken || !self.take(entry)? {
            self.reset()?;
            self.chain = Chain::Broken;
            return Ok(());
        }
        if head.last {
            self.resize(head.database_pages)?;
        }
        self.chain = chain;
        Ok(())
    }

    /// Applies the page entries. Returns false if they do not match the current pages.
    fn take(&mut self, entry: &Entry<'_>) -> Result<bool> {
        let mut rest = entry.payload;
        for _ in 0..entry.head.entries {
            let Some((change, more)) = delta::Entry::decode(rest) else {
                return Ok(false);
            };
            rest = more;
            let mut page = if change.full {
                ZERO_PAGE
            } else {
                self.page(change.page_no)?
            };
            change.apply(&mut page);
            self.put(change.page_no, &page)?;
        }
        Ok(true)
    }

    /// The content of a page; zeros if it was never written.
    pub(crate) fn page(&self, page_no: u32) -> Result<Page> {
        if let Some(page) = self.pages.get(&page_no) {
            return Ok(**page);
        }
        let mut page = ZERO_PAGE;
        if let Some(file) = &self.spilled {
            let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
            let read = file.read_at(&mut page, offset);
            read.map_err(|error| self.failed(&error))?;
        }
        Ok(page)
    }

    fn put(&mut self, page_no: u32, page: &Page) -> Result<()> {
        match self.pages.get_mut(&page_no) {
            Some(old) => **old = *page,
            None => drop(self.pages.insert(page_no, Box::new(*page))),
        }
        if self.pages.len() > self.max_pages {
            self.spill()?;
        }
        Ok(())
    }

    /// Moves all pages to the scratch file.
    pub(crate) fn spill(&mut self) -> Result<()> {
        let file = match &self.spilled {
            Some(file) => file.clone(),
            None => {
                let opened = self.disk.open(&self.scratch, OpenMode::Create);
                let file = opened.map_err(|error| self.failed(&error))?;
                self.spilled = Some(file.clone());
                file.set_len(0).map_err(|error| self.failed(&error))?;
                file
            }
        };
        let mut pages: Vec<_> = self.pages.drain().collect();
        pages.sort_unstable_by_key(|(page_no, _)| *page_no);
        for (page_no, page) in pages {
            let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
            let written = file.write_at(&page[..], offset);
            written.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Pages after the end are dropped: if the database grows again they read as zeros.
    fn resize(&mut self, size: u32) -> Result<()> {
        if size < self.size {
            self.pages.retain(|page_no, _| *page_no <= size);
            if let Some(file) = &self.spilled {
                let bytes = u64::from(size) * PAGE_BYTES as u64;
                let cut = file.len().and_then(|len| file.set_len(len.min(bytes)));
                cut.map_err(|error| self.failed(&error))?;
            }
        }
        self.size = size;
        Ok(())
    }

    /// Writes it to a file, as a checkpoint leaves the file of an object after this commit. Does not sync.
    pub(crate) fn write(&self, path: &Path, commit: CommitNo) -> Result<Arc<dyn DiskFile>> {
        let failed = |error| Error::io(format_args!("writing {}", path.display()), &error);
        let file = self.disk.open(path, OpenMode::Create).map_err(failed)?;
        // An interrupted attempt may have left a longer one.
        file.set_len(0).map_err(failed)?;
        self.copy(commit, |bytes, at| file.write_at(bytes, at).map_err(failed))?;
        Ok(file)
    }

    /// Passes it to `write` in pieces, each with its offset, as a checkpoint leaves the file of an object after this commit.
    pub(crate) fn copy(
        &self,
        commit: CommitNo,
        mut write: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let mut run = Vec::new();
        let mut at = 0;
        for page_no in 1..=self.size {
            let mut page = self.page(page_no)?;
            if page_no == 1 {
                header::set_commit(&mut page, commit, self.size);
            }
            run.extend_from_slice(&page);
            if run.len() >= WRITE_BYTES || page_no == self.size {
                write(&run, at)?;
                at += run.len() as u64;
                run.clear();
            }
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::io(
            format_args!("the scratch file {}", self.scratch.display()),
            error,
        )
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.spilled.take().is_some() {
            // If it cannot be removed now, the next start removes it.
            let _ = self.disk.remove(&self.scratch);
        }
    }
}
