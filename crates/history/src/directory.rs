//! `history.json` in a data directory: who it is in the store, and what it has published.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, Listed, Session, Writer};

const VERSION: u32 = 1;

/// A manifest, as a directory remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    pub number: u64,
    pub session: Session,
}

/// What a directory knows of its copies. It decides at a start whether they are its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    pub writer: Writer,
    /// The last manifest that the store has confirmed.
    pub published: Option<Mark>,
    /// The last one that was tried, written before the request.
    pub tried: Option<Mark>,
    /// Another's, which this directory was restored to follow.
    pub restored: Option<Mark>,
}

/// Records in a data directory that was restored from a copy that it continues the history there: its node uploads to the same
/// place, unless another directory has published after `newest`, which was the newest manifest before the restore.
///
/// # Errors
/// If the file `history.json` cannot be written, or there are no random numbers.
pub fn continue_after(newest: &Listed, dir: &Path) -> Result<(), Error> {
    Directory::new(dir).write(&Record {
        version: VERSION,
        writer: Writer::random()?,
        published: None,
        tried: None,
        restored: Some(Mark {
            number: newest.number,
            session: newest.session,
        }),
    })
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    dir: PathBuf,
}

impl Directory {
    pub(crate) fn new(dir: &Path) -> Self {
        let dir = dir.to_owned();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.join("history.json")
    }

    /// Reads the record, or makes one.
    pub(crate) fn read(&self) -> Result<Record, Error> {
        let path = self.path();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let record = Record {
                    version: VERSION,
                    writer: Writer::random()?,
                    published: None,
                    tried: None,
                    restored: None,
                };
                self.write(&record)?;
                return Ok(record);
            }
            Err(error) => return Err(Error::file(&path, error)),
        };
        let damaged = |how: String| Error::damaged(path.display().to_string(), how);
        let record: Record =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if record.version != VERSION {
            return Err(damaged(format!("unknown version {}", record.version)));
        }
        Ok(record)
    }

    /// Replaces it as a whole, durably.
    pub(crate) fn write(&self, record: &Record) -> Result<(), Error> {
        let path = self.path();
        let new = self.dir.join("history.json.new");
        let written = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            let mut text = serde_json::to_vec(record)?;
            text.push(b'\n');
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        written().map_err(|error| Error::file(&path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_writer_and_what_it_tried() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::new(dir.path());
        let mut record = directory.read().unwrap();
        assert_eq!(directory.read().unwrap(), record);
        let session = Session::random().unwrap();
        record.tried = Some(Mark { number: 3, session });
        directory.write(&record).unwrap();
        assert_eq!(directory.read().unwrap(), record);
        fs::write(directory.path(), "{}").unwrap();
        let error = directory.read().unwrap_err().to_string();
        assert!(error.contains("history.json"), "{error}");
    }
}
