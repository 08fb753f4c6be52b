//! Finds states in the history of an object: the bookmark at a time, and the pages at a bookmark.

use crate::archive::chain::Chain;
use crate::archive::history::shows;
use crate::archive::image::Image;
use crate::bookmark::{self, Bookmark};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Life, ObjectKey, Position};
use crate::timing::time;

impl Engine {
    /// Takes a checkpoint if anything is not archived yet. Returns an error if something is still not archived
    /// afterwards.
    pub(crate) fn archive_everything(&self) -> Result<()> {
        let end = self.shared.log.appended().0;
        let behind = || {
            let archived = self.archive.state().archived;
            archived.is_some_and(|archived| archived < end)
        };
        if behind() {
            self.checkpoint()?;
        }
        if behind() {
            let why = self.archive.failure();
            return Err(why.unwrap_or_else(|| {
                Error::refused("the log is not archived yet: try again in a moment")
            }));
        }
        Ok(())
    }

    /// The bookmark of an object's newest commit at or before a time. If clocks went backwards, it is the last commit
    /// whose time is not later.
    pub(crate) fn bookmark_at(&self, key: ObjectKey, unix_millis: u64) -> Result<Bookmark> {
        let present = self.present_commit(key)?;
        let behind = self.archive_everything();
        let history = self.archive.history(key)?;
        let Some((found, next)) = history.around(unix_millis)? else {
            return Err(history.too_early()?);
        };
        // The object was in this state at that time only if no other commit came in between.
        let followed = match &next {
            Some(next) => found.life == Life::Ends || next.commit == found.commit.next(),
            None => {
                behind?;
                let is_absent = |present| present == CommitNo(0);
                present.is_none_or(|present| is_absent(present) || !present.is_after(found.commit))
            }
        };
        if !followed {
            let from = time(found.unix_millis);
            let to = next
                .as_ref()
                .map_or_else(|| "now".to_owned(), |next| time(next.unix_millis));
            return Err(history.missing(
                format_args!("its commits between {from} and {to} are not in the archive"),
                found.position,
                next.map_or(Position::MAX, |next| next.position),
            ));
        }
        let bookmark = Bookmark {
            position: found.position,
            commit: match found.life {
                Life::Ends => CommitNo(0),
                _ => found.commit,
            },
            object: bookmark::mark(key),
        };
        if !history.has(&bookmark)? {
            return Err(history.incomplete(&bookmark)?);
        }
        Ok(bookmark)
    }

    /// The pages of an object at a bookmark.
    pub(crate) fn image_at(&self, key: ObjectKey, target: &Bookmark) -> Result<Image> {
        target.must_be_of(key)?;
        // An export asks for the states of many objects, before the end of the log: they are archived already.
        let archived = self.shared.catalog.current().archive.archived;
        if archived >= Some(target.position.lsn.get())
            && let Some(image) = self.archive.image(key, target)
            && image.size() > 0
        {
            return Ok(image);
        }
        let behind = self.archive_everything();
        let history = self.archive.history(key)?;
        let (mut image, reached) = self.archive.build(&history, target)?;
        if shows(&reached, target) {
            if image.size() == 0 {
                image.begin(&self.template);
            }
            return Ok(image);
        }
        // The missing part may not be archived yet.
        behind?;
        match reached {
            Chain::At(head) if history.hole(head.position, target.position).is_some() => {
                Err(history.missing(
                    format_args!("its commits up to {target} are missing"),
                    head.position,
                    target.position,
                ))
            }
            Chain::At(_) => Err(history.refused(format_args!(
                "{target} matches none of its commits: the commit never became durable"
            ))),
            _ => Err(history.incomplete(target)?),
        }
    }
}
