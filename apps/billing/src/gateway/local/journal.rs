//! The gateway's requests that changed something: a file that is replayed at the start.
//!
//! Contract: a request is in the file, and synced, before it is answered. The gateway is deterministic, so its state
//! follows from the file. A last line that a crash has truncated was never answered, and is removed. When the changes
//! outgrow the state, the file is atomically replaced by one that begins with the entire state.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Told, book::Book, refunds::Refunds};

/// The file is compacted when the changes exceed this many bytes and the size of the state.
const MAX_CHANGES: u64 = 256 << 10;

/// One change.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// When, in milliseconds since 1970.
    pub(super) at: u64,
    pub(super) change: Change,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// A request of the client.
    Asked {
        method: String,
        path: String,
        key: Option<String>,
        body: String,
    },
    /// A customer's authentication has succeeded or failed.
    Authenticated { payment: String, succeeds: bool },
    /// The entire state, replacing all earlier changes.
    Known(Box<Known>),
}

/// The entire state of the gateway.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) book: Book,
    pub(super) refunds: Refunds,
    /// Webhooks to send, and when.
    pub(super) events: Vec<(u64, Told)>,
}

pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Size of the state line at the beginning, in bytes.
    known: u64,
    /// Size of the changes since then, in bytes.
    changes: u64,
    /// A write has failed, and the file may end with an incomplete line.
    broken: bool,
}

impl Journal {
    /// Opens or creates the file; returns its entries, oldest first.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<Entry>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(0o600);
        let mut file = options.open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        let lines = text[..whole].split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty()).zip(1..);
        let entries = lines.map(|(line, number)| {
            serde_json::from_slice(line).map_err(|error| {
                let text = format!("{}: line {number} is not valid: {error}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            })
        });
        let entries = entries.collect::<io::Result<Vec<Entry>>>()?;
        file.set_len(u64::try_from(whole).unwrap_or(u64::MAX))?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        sync_directory(path)?;
        let first = text.iter().position(|byte| *byte == b'\n');
        let known = match entries.first().map(|entry| &entry.change) {
            Some(Change::Known(_)) => first.map_or(0, |end| end + 1),
            _ => 0,
        };
        let bytes = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let journal = Self {
            path: path.to_owned(),
            file,
            known: bytes(known),
            changes: bytes(whole - known),
            broken: false,
        };
        Ok((journal, entries))
    }

    /// Writes a change. After a failure all further writes fail.
    pub(super) fn write(&mut self, entry: &Entry) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier change could not be written"));
        }
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let written = self
            .file
            .write_all(&line)
            .and_then(|()| self.file.sync_data());
        self.broken = written.is_err();
        self.changes += line.len() as u64;
        written
    }

    /// Returns whether the file should be compacted.
    pub(super) fn has_grown(&self) -> bool {
        !self.broken && self.changes > MAX_CHANGES.max(self.known)
    }

    /// Compacts the file to one state entry. After an error the file is unchanged.
    pub(super) fn replace(&mut self, known: &Entry) -> io::Result<()> {
        // If it fails, do not retry with every change.
        self.changes = 0;
        let mut line = serde_json::to_vec(known)?;
        line.push(b'\n');
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let mut file = options.mode(0o600).open(&new)?;
        file.write_all(&line)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        // From here on the new file has the name, even if a crash undoes the rename.
        self.file = file;
        self.known = line.len() as u64;
        sync_directory(&self.path)
    }
}

/// Makes the name of a file durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
