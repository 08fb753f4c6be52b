//! The database of an object as of a commit, as a separate file.

use crate::bookmark::Bookmark;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, ObjectKey};
use crate::temporary::TemporaryFile;
use std::fmt;

/// A plain SQLite database with an object's content as of a commit. It is a temporary file without a name, in the data
/// directory, and is gone when this is dropped.
pub struct PastDatabase {
    file: TemporaryFile,
}

impl PastDatabase {
    /// Its length in bytes, never 0.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Reads up to `buf.len()` bytes from an offset on; fewer only at the end.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read(buf, offset)
    }
}

impl fmt::Debug for PastDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PastDatabase")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// See [`crate::Store::database_at`].
    pub(crate) fn database_at(&self, key: ObjectKey, at: &Bookmark) -> Result<PastDatabase> {
        let image = self.image_at(key, at)?;
        if at.commit == CommitNo(0) {
            return Err(Error::input(format!(
                "the object {key} did not exist at that point"
            )));
        }
        let file = self.shared.vfs.temporary().create()?;
        let copied = image.copy(at.commit, |bytes, offset| file.write(bytes, offset));
        copied.map_err(|error| match error.kind() {
            ErrorKind::NoSpace => Error::new(
                ErrorKind::NoSpace,
                "no space for a copy of the object's database beside commits: free space on the disk of the data directory",
            ),
            _ => error,
        })?;
        Ok(PastDatabase { file })
    }
}
