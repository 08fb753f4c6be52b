//! Imports: an object is made from a database file, in one commit.
//!
//! The file's pages are collected first ([`Incoming`]), in memory or, if they are many, in a scratch file. They are then staged
//! like those of a restore, or written as a replacement, and checked as a database before the commit.

use super::cut::TimelinesEnd;
use crate::archive::image::Image;
use crate::database::ObjectDb;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{ObjectKey, Page, ZERO_PAGE};
use crate::limits::{ARCHIVE_ROOM_CHECK_BYTES, PAGE_BYTES};
use crate::overlay::header;
use crate::repair::fault_in;
use crate::timeline::Afterwards;
use std::fmt;
use std::sync::Arc;

/// What a user can do with a file that is not as those of objects are.
const CONVERT: &str = "`abide import` converts a file, and so does sqlite3 FILE \"PRAGMA page_size = 4096; PRAGMA auto_vacuum = 0; \
     VACUUM INTO 'NEW'\"; for UTF-16 or reserved bytes, load the output of .dump into a new database";

const OTHER_SIZE: &str = "it does not have the size that its header has";

/// How an object is imported.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// The object's name, if it has one.
    pub name: Option<&'a str>,
    /// The SHA-256 of what it comes from: it is in the object's timeline.
    pub source: [u8; 32],
    /// The object's timelines are above this. For an object of an export, the export's.
    pub above: Option<TimelinesEnd>,
    /// Whether it is dormant. If it acts, it replaces an original that is gone: it knows the results of calls of the original. An
    /// object that was dormant stays so in either case.
    pub afterwards: Afterwards,
}

/// The bytes of a database file on their way into a store. If it is dropped, nothing has happened.
pub struct Incoming {
    engine: Arc<Engine>,
    image: Image,
    /// The bytes of the page that is not complete.
    page: Page,
    filled: usize,
    /// Bytes for which the disk is known to have room.
    room: u64,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Incoming {
    fn len(&self) -> u64 {
        u64::from(self.image.size()) * PAGE_BYTES as u64 + self.filled as u64
    }

    /// Adds the next bytes of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: no object can have this file. [`ErrorKind::Limit`]: it is too large. [`ErrorKind::NoSpace`].
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let taken = bytes.len().min(PAGE_BYTES - self.filled);
            self.page[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == PAGE_BYTES {
                self.take_page()?;
            }
        }
        Ok(())
    }

    fn take_page(&mut self) -> Result<()> {
        let size = self.image.size();
        if size == 0
            && let Some(fault) = header::fault(&self.page)
        {
            return Err(unfit(fault));
        }
        let most = self.engine.stored.max_page_count(0);
        if u64::from(size) >= most {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "the database has more than {} MiB: an object must not be larger (storage.max_object_bytes)",
                    (most * PAGE_BYTES as u64) >> 20
                ),
            ));
        }
        if self.room < PAGE_BYTES as u64 {
            if !self.engine.archive.has_room_for(ARCHIVE_ROOM_CHECK_BYTES) {
                return Err(Error::new(
                    ErrorKind::NoSpace,
                    "no space for the import: free space on the disk of the data directory; nothing has changed",
                ));
            }
            self.room = ARCHIVE_ROOM_CHECK_BYTES;
        }
        self.room -= PAGE_BYTES as u64;
        self.image.push(&self.page)?;
        self.filled = 0;
        Ok(())
    }

    /// The pages of the whole file.
    fn finish(self) -> Result<Image> {
        let size = self.image.size();
        if self.filled > 0 || size == 0 {
            return Err(unfit("it is cut off, or not a SQLite database"));
        }
        let first = self.image.page(1)?;
        if header::size(&first) != size {
            return Err(unfit(OTHER_SIZE));
        }
        Ok(self.image)
    }
}

/// Why a database file of this header and length is not as those of objects are; `None` if [`Store::import`] takes it. A file
/// must not be written meanwhile, and must have no journal.
///
/// [`Store::import`]: crate::Store::import
pub fn object_file_fault(header: &[u8; header::BYTES], bytes: u64) -> Option<&'static str> {
    let size = u64::from(header::size(header)) * PAGE_BYTES as u64;
    let is_whole = size == bytes;
    header::fault(header).or((!is_whole).then_some(OTHER_SIZE))
}

fn unfit(why: impl fmt::Display) -> Error {
    Error::input(format!("the file cannot be imported: {why}. {CONVERT}"))
}

impl Engine {
    /// See [`crate::Store::incoming`].
    pub(crate) fn incoming(self: &Arc<Self>) -> Result<Incoming> {
        let dir = self.archive.dir();
        // Without an archive it may not be there.
        let made = self.shared.disk.create_dir_all(dir);
        made.map_err(|error| Error::io(format_args!("creating {}", dir.display()), &error))?;
        Ok(Incoming {
            engine: self.clone(),
            image: self.archive.new_image(),
            page: ZERO_PAGE,
            filled: 0,
            room: 0,
        })
    }

    /// See [`crate::Store::import`].
    pub(crate) fn import(
        self: &Arc<Self>,
        key: ObjectKey,
        database: Incoming,
        import: &Import<'_>,
    ) -> Result<()> {
        self.must_own_all("import an object")?;
        let image = database.finish()?;
        self.quarantine_if_lost(key)?;
        let file = self.page_file(key)?;
        if !file.is_new() {
            return Err(Error::input(format!(
                "the object {key} exists: an import replaces nothing; import to a name that was never used"
            )));
        }
        let _replacing = self.replace(&file, &image, "importing")?;
        let db = ObjectDb::open(file.clone(), self.shared.options.cache_kib).map_err(unsound)?;
        db.must_be_importable().map_err(unsound)?;
        if let Some(fault) = fault_in(&db).map_err(unsound)? {
            return Err(unsound(Error::damaged(fault)));
        }
        let known = db.newest_timeline().map_err(unsound)?;
        if let Some(above) = known.max(import.above.map(|end| end.0)) {
            file.raise_timelines(above)?;
        }
        db.commit_imported(import.name, import.source, import.afterwards)?;
        self.wait_durable(db.newest())
    }
}

/// The error of a database that SQLite cannot read, which is that of the file, and not of an object.
fn unsound(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Damaged | ErrorKind::Input | ErrorKind::Limit => {
            Error::input(format!("the database cannot be imported: {error}"))
        }
        _ => error,
    }
}
