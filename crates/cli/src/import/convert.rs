//! A database of any program, in the form that objects have.

use std::{
    env,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use abide_storage::object_file_fault;
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// The bytes of a database's header.
const HEADER: usize = 100;

/// A database file that an object can have: the file itself, or a converted copy.
pub(super) struct Converted {
    path: PathBuf,
    _copy: Option<TempDir>,
    /// Keeps others from writing to the file.
    _lock: Connection,
}

impl Converted {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let reading = || format!("cannot read {} as a SQLite database", path.display());
        ensure!(path.is_file(), "there is no file {}", path.display());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let lock = Connection::open_with_flags(path, flags).with_context(reading)?;
        let encoding: String = lock
            .query_row("PRAGMA encoding", (), |row| row.get(0))
            .with_context(reading)?;
        ensure!(
            encoding == "UTF-8",
            "{} has the text encoding {encoding}, and objects have UTF-8: load its content into a new database with sqlite3 OLD .dump | \
             sqlite3 NEW, and import that",
            path.display()
        );
        if is_converted(path).with_context(reading)? {
            lock.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
                .with_context(reading)?;
            return Ok(Self {
                path: path.to_owned(),
                _copy: None,
                _lock: lock,
            });
        }
        let dir = env::temp_dir();
        let converting = || {
            format!(
                "cannot convert {} in {}; another directory can be set with TMPDIR",
                path.display(),
                dir.display()
            )
        };
        let copy = TempDir::new_in(&dir).with_context(converting)?;
        let converted = copy.path().join("converted.sqlite");
        lock.execute_batch("PRAGMA page_size = 4096; PRAGMA auto_vacuum = NONE")
            .and_then(|()| lock.execute("VACUUM INTO ?1", [converted.to_str()]))
            .with_context(converting)?;
        Ok(Self {
            path: converted,
            _copy: Some(copy),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns whether the file can be imported as it is. Newer changes may be in a second file next to it.
fn is_converted(path: &Path) -> Result<bool> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut header = [0; HEADER];
    if bytes < HEADER as u64 {
        return Ok(false);
    }
    file.read_exact(&mut header)?;
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        Path::new(&name).exists()
    };
    let is_alone = !beside("-wal") && !beside("-journal");
    Ok(is_alone && object_file_fault(&header, bytes).is_none())
}
