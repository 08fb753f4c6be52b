//! A large object as the archive has it last, of which single pages are read: where they are is in the page maps of the runs
//! ([`page_map`](super::page_map)). What is in runs without a map of it is kept in memory.

mod blocks;
mod loaded;
mod mapped;

use super::Archive;
use super::index::IndexEntry;
use super::lookup::Lookup;
use crate::delta;
use crate::error::Result;
use crate::ident::{CommitNo, ObjectKey, Page, ZERO_PAGE};
use crate::overlay::header;
use blocks::Blocks;
use loaded::Loaded;
use mapped::Mapped;

/// See the module.
pub(crate) struct Paged {
    key: ObjectKey,
    commit: CommitNo,
    size: u32,
    /// Oldest first. The first begins with a base.
    parts: Vec<Part>,
    blocks: Blocks,
}

/// What a run has of the object.
enum Part {
    Mapped(Box<Mapped>),
    Loaded(Loaded),
}

impl Archive {
    /// An object as of its newest entry, if single pages of that can be read.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn paged(&self, newest: &IndexEntry) -> Result<Option<Paged>> {
        let mut lookup = Lookup::new(self);
        let mut sections = lookup.all(newest.key);
        if let Some(error) = lookup.into_lost() {
            return Err(error);
        }
        let mut maps = Vec::new();
        let mut has_base = false;
        while let Some((run, index)) = sections.pop().filter(|_| !has_base) {
            let map = run.page_map(newest.key)?;
            has_base = map.as_ref().is_some_and(|map| map.has_base);
            maps.push((run, index, map));
        }
        if !has_base {
            return Ok(None);
        }
        let mut parts = Vec::new();
        let mut at: Option<(CommitNo, u32)> = None;
        for (run, index, map) in maps.into_iter().rev() {
            let before = at;
            let part = match (map, before) {
                (Some(map), _) => {
                    let mapped = Mapped::continuing(run, map, before.map(|(commit, _)| commit));
                    mapped.map(|mapped| {
                        at = mapped.reached().or(before);
                        Part::Mapped(Box::new(mapped))
                    })
                }
                (None, Some((commit, size))) => {
                    let loaded = Loaded::read(run, index, commit, size)?;
                    loaded.map(|(commit, loaded)| {
                        at = Some((commit, loaded.size));
                        Part::Loaded(loaded)
                    })
                }
                (None, None) => None,
            };
            let Some(part) = part else {
                return Ok(None);
            };
            parts.push(part);
        }
        let newest_commit = newest.newest.commit;
        let at = at.filter(|(commit, _)| *commit == newest_commit);
        Ok(at.map(|(commit, size)| Paged {
            key: newest.key,
            commit,
            size,
            parts,
            blocks: Blocks::default(),
        }))
    }
}

impl Paged {
    /// The size in pages.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// A page, as it would be in the object's file.
    ///
    /// # Errors
    /// A run cannot be read.
    pub(crate) fn page(&self, page_no: u32) -> Result<Page> {
        let mut page = ZERO_PAGE;
        // Newest first.
        let mut changes = Vec::new();
        for part in self.parts.iter().rev() {
            let is_whole = match part {
                Part::Mapped(part) => {
                    part.look_for(self.key, page_no, &self.blocks, &mut changes)?
                }
                Part::Loaded(part) => part.look_for(page_no, &mut changes),
            };
            if is_whole {
                break;
            }
        }
        for bytes in changes.iter().rev() {
            if let Some((change, _)) = delta::Entry::decode(bytes) {
                change.apply(&mut page);
            }
        }
        if page_no == 1 {
            header::set_commit(&mut page, self.commit, self.size);
        }
        Ok(page)
    }
}
