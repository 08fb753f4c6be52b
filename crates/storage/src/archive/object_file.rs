//! An object's file, which the archive reads.

use super::entry::Head;
use super::run::RunWriter;
use super::snapshot;
use crate::disk::{DiskFile, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{CommitNo, ObjectKey, Page, ZERO_PAGE};
use crate::limits::PAGE_BYTES;
use crate::overlay::header;
use crate::shared::Shared;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// See the module. The checkpoint lock keeps it unchanged.
pub(super) struct ObjectFile {
    key: ObjectKey,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    first: Page,
}

impl ObjectFile {
    /// Opens the file of an object. `None` if there is none.
    pub(super) fn open(shared: &Shared, key: ObjectKey) -> Result<Option<Self>> {
        let Some(path) = shared.catalog.object_path(key) else {
            return Ok(None);
        };
        let failed = |error| failed(key, &path, &error);
        let file = match shared.disk.open(&path, OpenMode::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut first = ZERO_PAGE;
        file.read_at(&mut first, 0).map_err(failed)?;
        Ok(Some(Self {
            key,
            path,
            file,
            first,
        }))
    }

    /// The newest commit in it.
    pub(super) fn commit(&self) -> CommitNo {
        header::commit(&self.first)
    }

    /// The size of the database in pages.
    pub(super) fn pages(&self) -> u32 {
        header::size(&self.first)
    }

    /// Returns whether it is a database of that size.
    pub(super) fn is_whole(&self) -> Result<bool> {
        let bytes = self.file.len();
        let bytes = bytes.map_err(|error| failed(self.key, &self.path, &error))?;
        let is_database = header::is_database(&self.first) && self.pages() > 0;
        Ok(is_database && bytes >= u64::from(self.pages()) * PAGE_BYTES as u64)
    }

    /// A page.
    pub(super) fn page(&self, page_no: u32) -> Result<Page> {
        let mut page = ZERO_PAGE;
        let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
        let read = self.file.read_at(&mut page, offset);
        read.map_err(|error| failed(self.key, &self.path, &error))?;
        Ok(page)
    }

    /// Adds its content to a run, as a snapshot. Returns the snapshot's header.
    pub(super) fn copy(&mut self, writer: &mut RunWriter, head: Head) -> Result<Head> {
        let head = Head {
            database_pages: self.pages(),
            ..head
        };
        let Self {
            key, path, file, ..
        } = self;
        let page = &mut self.first;
        snapshot::add(writer, head, |page_no| {
            let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
            let read = file.read_at(page, offset);
            let read = read.map_err(|error| failed(*key, path, &error))?;
            page[read..].fill(0);
            Ok(*page)
        })?;
        Ok(head)
    }
}

fn failed(key: ObjectKey, path: &std::path::Path, error: &io::Error) -> Error {
    Error::of_object(key, format_args!("reading {}", path.display()), error)
}
