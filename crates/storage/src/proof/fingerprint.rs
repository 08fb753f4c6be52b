//! The pages of an object as it is, as checksums.

use crate::bookmark::Bookmark;
use crate::engine::Engine;
use crate::error::Result;
use crate::ident::{CommitNo, Lsn, ObjectKey, Page, ZERO_PAGE};
use crate::limits::PAGE_BYTES;
use crate::objects::reading;
use crate::overlay::{Object, header};
use std::sync::Arc;

/// How often it is begun again because the object was written meanwhile.
const ATTEMPTS: u32 = 4;

/// What an object has at one commit: a checksum of each page, which takes four bytes of memory.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    pub(super) key: ObjectKey,
    pub(super) at: Bookmark,
    pub(super) pages: Vec<u32>,
}

impl Fingerprint {
    /// The object.
    pub fn key(&self) -> ObjectKey {
        self.key
    }

    /// Of the commit.
    pub fn bookmark(&self) -> Bookmark {
        self.at
    }

    /// The size of the object in pages; 0 if there is no object.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// A copy of the log up to this position has the commit, and so has one of the archive.
    pub fn end(&self) -> Lsn {
        self.at.position.lsn
    }
}

/// The checksum of a page. `commit` and `size` are the object's: its file has them in the first page, and its commits do not.
pub(super) fn checksum(mut page: Page, page_no: u32, commit: CommitNo, size: u32) -> u32 {
    if page_no == 1 {
        header::set_commit(&mut page, commit, size);
    }
    crc32c::crc32c(&page)
}

impl Engine {
    /// See [`crate::Store::fingerprint`].
    pub(crate) fn fingerprint(&self, key: ObjectKey) -> Result<Option<Fingerprint>> {
        for _ in 0..ATTEMPTS {
            let manifest = self.shared.catalog.current();
            let is_elsewhere = self.hydration.may_lack(key)
                || manifest.quarantine_of(key).is_some()
                || manifest.unique_key(key.namespace).is_none();
            if is_elsewhere {
                return Ok(None);
            }
            let (seen, object) = self.objects.with(key, |object, pages| {
                let looked = self.objects.look_at_file(object, pages);
                let at = looked.map(|()| {
                    let at = object.bookmark(pages);
                    pages.quarantined.is_none().then_some((at, pages.size))
                });
                (at, object.clone())
            })?;
            let checksums = match seen {
                Ok(Some((at, size))) => self.checksums(&object, at.commit, size).map(|pages| {
                    let pages = pages?;
                    Some(Fingerprint { key, at, pages })
                }),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            self.objects.forget_if_idle(&object);
            if let Some(fingerprint) = checksums? {
                return Ok(Some(fingerprint));
            }
        }
        Ok(None)
    }

    /// The checksums of all pages, unless the object is written meanwhile. It is locked for one page at a time.
    fn checksums(
        &self,
        object: &Arc<Object>,
        commit: CommitNo,
        size: u32,
    ) -> Result<Option<Vec<u32>>> {
        let mut checksums = Vec::with_capacity(size as usize);
        for page_no in 1..=size {
            let mut page = ZERO_PAGE;
            let mut pages = object.pages();
            let is_same = pages.commit == commit && pages.size == size;
            if !is_same || pages.retired || pages.quarantined.is_some() {
                return Ok(None);
            }
            if let Some(there) = pages.overlay.get(&page_no) {
                page = *there.image;
            } else if let Some(file) = self.objects.file(object, &mut pages)? {
                let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
                let read = file.read_at(&mut page, offset);
                let read = read.map_err(|error| reading(object, &error))?;
                page[read..].fill(0);
            }
            drop(pages);
            checksums.push(checksum(page, page_no, commit, size));
        }
        Ok(Some(checksums))
    }
}
