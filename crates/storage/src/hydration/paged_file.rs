//! The file of a large object before it is written: it is read page by page from the archive.
//!
//! Contract: it reads like the file that hydration will write and, once that file is in its place, it is that file. Until then it
//! cannot be written: a checkpoint has the file written first.

use crate::archive::paged::Paged;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::limits::PAGE_BYTES;
use crate::sync::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// See the module.
pub(crate) struct PagedFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    state: Mutex<State>,
}

enum State {
    Paged(Arc<Paged>),
    /// The file is in its place; `None` until it is opened.
    Written(Option<Arc<dyn DiskFile>>),
}

/// Where to read from.
enum From {
    Pages(Arc<Paged>),
    File(Arc<dyn DiskFile>),
}

impl PagedFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf, paged: Paged) -> Self {
        let state = Mutex::new(State::Paged(Arc::new(paged)));
        Self { disk, path, state }
    }

    /// The file is in its place.
    pub(crate) fn is_written(&self) {
        *self.state.lock() = State::Written(None);
    }

    fn from(&self) -> io::Result<From> {
        let mut state = self.state.lock();
        Ok(match &mut *state {
            State::Paged(paged) => From::Pages(paged.clone()),
            State::Written(Some(file)) => From::File(file.clone()),
            State::Written(file) => {
                let opened = self.disk.open(&self.path, OpenMode::Existing)?;
                From::File(file.insert(opened).clone())
            }
        })
    }

    fn written(&self) -> io::Result<Arc<dyn DiskFile>> {
        match self.from()? {
            From::File(file) => Ok(file),
            From::Pages(_) => Err(io::Error::other("its file is not written yet")),
        }
    }
}

impl DiskFile for PagedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let paged = match self.from()? {
            From::File(file) => return file.read_at(buf, offset),
            From::Pages(paged) => paged,
        };
        let end = u64::from(paged.size()) * PAGE_BYTES as u64;
        let mut read = 0;
        while read < buf.len() && offset + (read as u64) < end {
            let at = offset + read as u64;
            let within = (at % PAGE_BYTES as u64) as usize;
            let page_no = (at / PAGE_BYTES as u64) as u32 + 1;
            let page = paged.page(page_no).map_err(io::Error::other)?;
            let part = &page[within..];
            let length = part.len().min(buf.len() - read);
            buf[read..read + length].copy_from_slice(&part[..length]);
            read += length;
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.written()?.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        match self.from()? {
            From::File(file) => file.len(),
            From::Pages(paged) => Ok(u64::from(paged.size()) * PAGE_BYTES as u64),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.written()?.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.written()?.sync()
    }
}
