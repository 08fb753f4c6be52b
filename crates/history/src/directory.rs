//! `history.json` in a data directory: who it is in the store, and what it has published.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use tokio::sync::Mutex;

use crate::{Error, Machine, Seal, Session, Store, Writer, replace::replace};

const VERSION: u32 = 1;
const NAME: &str = "history.json";

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
    /// Those that were tried since, written before the request: each may be there, or come.
    pub tried: Vec<Mark>,
    /// It was restored to continue another's history, which it sealed.
    pub is_restored: bool,
    /// Where its history was taken over by another: it is not to continue there.
    pub superseded_at: Option<String>,
    /// The last session that is known to have begun in the tail, and before it those that may have tried to since, written before
    /// the request.
    pub begun: Vec<Session>,
}

impl Seal {
    /// Records in a data directory that was restored from the sealed copy that it continues the history there: its node uploads to
    /// the same place, unless another directory has begun there since.
    ///
    /// # Errors
    /// If the file `history.json` cannot be written.
    pub fn continue_in(self, dir: &Path) -> Result<(), Error> {
        Directory::new(dir).write(&Record {
            is_restored: true,
            begun: vec![self.session],
            ..Record::new(self.writer)
        })
    }
}

impl Record {
    /// True if this directory has published a manifest, or may have.
    pub(crate) fn knows(&self, mark: Mark) -> bool {
        self.published == Some(mark) || self.tried.contains(&mark)
    }

    /// True if the history in a store was taken over from it.
    pub(crate) fn is_superseded(&self, store: &Store) -> bool {
        self.superseded_at.as_deref() == Some(&store.location().to_string())
    }

    /// A manifest is going to be tried.
    pub(crate) fn note_tried(&mut self, mark: Mark) {
        if !self.tried.contains(&mark) {
            self.tried.push(mark);
        }
    }

    /// A manifest is in force.
    pub(crate) fn note_published(&mut self, mark: Mark) {
        self.published = Some(mark);
        self.tried.retain(|tried| tried.number > mark.number);
    }

    fn new(writer: Writer) -> Self {
        Self {
            version: VERSION,
            writer,
            published: None,
            tried: Vec::new(),
            is_restored: false,
            superseded_at: None,
            begun: Vec::new(),
        }
    }
}

/// The file, of which a session keeps the content.
#[derive(Debug)]
pub(crate) struct Notes {
    directory: Directory,
    machine: Arc<dyn Machine>,
    record: Arc<Mutex<Record>>,
}

impl Notes {
    /// Reads the file, or makes it.
    pub(crate) async fn open(
        directory: Directory,
        machine: &Arc<dyn Machine>,
    ) -> Result<Self, Error> {
        let (read, new) = (directory.clone(), Writer::random(&**machine)?);
        let record = machine.on_thread(move || read.read(new)).await?;
        Ok(Self {
            directory,
            machine: Arc::clone(machine),
            record: Arc::new(Mutex::new(record)),
        })
    }

    pub(crate) async fn record(&self) -> Record {
        self.record.lock().await.clone()
    }

    /// Changes it, durably. If the caller is gone before that, the thread still holds the lock until it is written.
    pub(crate) async fn change(
        &self,
        change: impl FnOnce(&mut Record) + Send + 'static,
    ) -> Result<(), Error> {
        let mut record = Arc::clone(&self.record).lock_owned().await;
        let directory = self.directory.clone();
        let written = self.machine.on_thread(move || {
            let mut changed = record.clone();
            change(&mut changed);
            directory.write(&changed)?;
            *record = changed;
            Ok(())
        });
        written.await
    }
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
        self.dir.join(NAME)
    }

    /// Reads the record, or makes that of a new writer.
    pub(crate) fn read(&self, new: Writer) -> Result<Record, Error> {
        let path = self.path();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let record = Record::new(new);
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
        let written = || {
            let mut text = serde_json::to_vec(record)?;
            text.push(b'\n');
            replace(&self.dir, NAME, &text)
        };
        written().map_err(|error| Error::file(&self.path(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealMachine;

    #[test]
    fn a_directory_keeps_its_writer_and_what_it_tried() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::new(dir.path());
        let new = Writer::random(&RealMachine).unwrap();
        let mut record = directory.read(new).unwrap();
        let other = Writer::random(&RealMachine).unwrap();
        assert_eq!(directory.read(other).unwrap(), record);
        let session = Session::random(&RealMachine).unwrap();
        record.note_tried(Mark { number: 3, session });
        directory.write(&record).unwrap();
        assert_eq!(directory.read(other).unwrap(), record);
        fs::write(directory.path(), "{}").unwrap();
        let error = directory.read(new).unwrap_err().to_string();
        assert!(error.contains("history.json"), "{error}");
    }
}
