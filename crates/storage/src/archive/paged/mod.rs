//! A large object as the archive has it last, of which single pages are read: where they are is in the page maps of the runs
//! ([`page_map`](super::page_map)). Older runs are read only for pages of which the newest has not everything. What is in runs without
//! a map of the object is kept in memory; if that is too much, the whole object is put together beside its future file.

mod blocks;
mod loaded;
mod mapped;

use super::Archive;
use super::image::Image;
use super::index::IndexEntry;
use super::lookup::Lookup;
use crate::delta;
use crate::error::{Error, Result};
use crate::ident::{CommitNo, ObjectKey, Page, ZERO_PAGE};
use crate::overlay::header;
use crate::sync::Mutex;
use blocks::Blocks;
use loaded::Loaded;
use mapped::Mapped;
use std::sync::Arc;

/// See the module.
pub(crate) struct Paged {
    archive: Arc<Archive>,
    /// The object's entry in the newest run.
    entry: IndexEntry,
    /// What the newest run has, if it has a map: mostly all that is needed first.
    newest: Option<Mapped>,
    /// What all runs have, once that is needed.
    all: Mutex<Option<Arc<All>>>,
    blocks: Blocks,
}

/// What all runs have of an object.
enum All {
    Parts(Parts),
    /// Where single pages cannot be read: the whole object.
    Image(Image),
}

/// What the runs have of an object.
struct Parts {
    /// Oldest first. The first begins with a base.
    parts: Vec<Part>,
    /// The commit that they end with, and the pages that it leaves.
    reached: (CommitNo, u32),
}

/// What a run has of the object.
enum Part {
    Mapped(Box<Mapped>),
    Loaded(Loaded),
}

impl Parts {
    /// `None` if single pages cannot be read.
    fn find(archive: &Archive, key: ObjectKey) -> Result<Option<Self>> {
        let mut lookup = Lookup::new(archive);
        let mut sections = lookup.all(key);
        if let Some(error) = lookup.into_lost() {
            return Err(error);
        }
        let mut maps = Vec::new();
        let mut has_base = false;
        while let Some((run, index)) = sections.pop().filter(|_| !has_base) {
            let map = run.page_map(key)?;
            has_base = map.as_ref().is_some_and(|map| map.has_base);
            maps.push((run, index, map));
        }
        let mut parts = Vec::new();
        let mut reached: Option<(CommitNo, u32)> = None;
        for (run, index, map) in maps.into_iter().rev() {
            let part = match map {
                Some(map) if !map.has_base && reached.is_none() => None,
                Some(map) => {
                    Mapped::continuing(run, map, reached.map(|(commit, _)| commit)).map(|mapped| {
                        reached = mapped.reached().or(reached);
                        Part::Mapped(Box::new(mapped))
                    })
                }
                None => Loaded::read(run, index, reached)?.map(|(commit, loaded)| {
                    reached = Some((commit, loaded.size));
                    Part::Loaded(loaded)
                }),
            };
            let Some(part) = part else {
                return Ok(None);
            };
            parts.push(part);
        }
        Ok(reached.map(|reached| Self { parts, reached }))
    }

    fn page(&self, key: ObjectKey, page_no: u32, blocks: &Blocks) -> Result<Page> {
        let mut changes = Vec::new();
        for part in self.parts.iter().rev() {
            let is_whole = match part {
                Part::Mapped(part) => part.look_for(key, page_no, blocks, &mut changes)?,
                Part::Loaded(part) => part.look_for(page_no, &mut changes),
            };
            if is_whole {
                break;
            }
        }
        Ok(put_together(&changes))
    }
}

impl Archive {
    /// An object as of its newest entry, if single pages of that can be read.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn paged(self: &Arc<Self>, newest: &IndexEntry) -> Result<Option<Paged>> {
        let mut paged = Paged {
            archive: self.clone(),
            entry: *newest,
            newest: None,
            all: Mutex::default(),
            blocks: Blocks::default(),
        };
        if newest.has_base(self.state().rebase) {
            paged.newest = self.newest_part(newest)?;
        }
        if paged.newest.is_none() {
            let Some(parts) = paged.find_parts()? else {
                return Ok(None);
            };
            paged.all = Mutex::new(Some(Arc::new(All::Parts(parts))));
        }
        Ok(Some(paged))
    }

    /// What the newest run has of an object, if it has a map up to the object's newest commit.
    fn newest_part(&self, newest: &IndexEntry) -> Result<Option<Mapped>> {
        let mut lookup = Lookup::new(self);
        let found = lookup.newest_part(newest.key);
        if let Some(error) = lookup.into_lost() {
            return Err(error);
        }
        let Some((run, _)) = found else {
            return Ok(None);
        };
        let map = run.page_map(newest.key)?;
        let reached = (newest.newest.commit, newest.newest.pages);
        let map = map.filter(|map| (map.last, map.size) == reached);
        Ok(map.and_then(|map| Mapped::continuing(run, map, None)))
    }
}

impl Paged {
    /// The size in pages.
    pub(crate) fn size(&self) -> u32 {
        self.entry.newest.pages
    }

    /// A page, as it would be in the object's file.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn page(&self, page_no: u32) -> Result<Page> {
        let mut page = match &self.newest {
            Some(newest) if newest.is_whole(page_no) => {
                let mut changes = Vec::new();
                newest.look_for(self.entry.key, page_no, &self.blocks, &mut changes)?;
                put_together(&changes)
            }
            _ => match &*self.all()? {
                All::Parts(parts) => parts.page(self.entry.key, page_no, &self.blocks)?,
                All::Image(image) => image.page(page_no)?,
            },
        };
        if page_no == 1 {
            header::set_commit(&mut page, self.entry.newest.commit, self.size());
        }
        Ok(page)
    }

    fn all(&self) -> Result<Arc<All>> {
        let mut known = self.all.lock();
        if let Some(all) = &*known {
            return Ok(all.clone());
        }
        let all = match self.find_parts()? {
            Some(parts) => All::Parts(parts),
            None => All::Image(self.image()?),
        };
        Ok(known.insert(Arc::new(all)).clone())
    }

    fn find_parts(&self) -> Result<Option<Parts>> {
        let found = Parts::find(&self.archive, self.entry.key)?;
        let reached = (self.entry.newest.commit, self.size());
        Ok(found.filter(|parts| parts.reached == reached))
    }

    /// The whole object, on the disk.
    fn image(&self) -> Result<Image> {
        let image = self.archive.newest_image(&self.entry)?;
        let mut image = image.ok_or_else(|| {
            let told = format!(
                "the archive does not have the whole state of the object {}",
                self.entry.key
            );
            Error::damaged(told)
        })?;
        image.spill()?;
        Ok(image)
    }
}

/// A page from its changes, newest first.
fn put_together(changes: &[Vec<u8>]) -> Page {
    let mut page = ZERO_PAGE;
    for bytes in changes.iter().rev() {
        if let Some((change, _)) = delta::Entry::decode(bytes) {
            change.apply(&mut page);
        }
    }
    page
}
