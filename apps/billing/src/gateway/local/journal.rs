//! What the gateway was asked that has changed something: a file that is read again when it starts.
//!
//! Contract: a request is in the file, and synced, before it is answered. The gateway decides the same each time, so what it
//! knows follows from the file. A last line that a crash has cut short was never answered, and is cut off.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

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
    /// A customer has proved who they are, or has not.
    Authenticated { payment: String, succeeds: bool },
}

pub(super) struct Journal {
    file: File,
    /// It could not be written, and may end in the midst of a line.
    broken: bool,
}

impl Journal {
    /// Opens the file, or makes it; what is in it, oldest first.
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
                let text = format!("{}: line {number} cannot be read: {error}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            })
        });
        let entries = entries.collect::<io::Result<Vec<Entry>>>()?;
        file.set_len(u64::try_from(whole).unwrap_or(u64::MAX))?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        if let Some(directory) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            File::open(directory)?.sync_all()?;
        }
        let journal = Self {
            file,
            broken: false,
        };
        Ok((journal, entries))
    }

    /// Writes a change. After a failure none is written any more.
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
        written
    }
}
