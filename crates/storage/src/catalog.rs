//! The catalog: the manifest of an open store, in memory and on disk.
//!
//! Readers get the last published manifest and never wait for the disk. A change is durable before it is visible.

use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, NamespaceNo, ObjectKey};
use crate::manifest::Manifest;
use crate::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The held lock of the data directory.
pub(crate) type DirLock = Box<dyn Send + Sync>;

/// The lock file's name.
pub(crate) const LOCK: &str = "LOCK";

/// Ends the names of files that hydration puts beside objects' files.
const ENDED: &str = ".ended";
const HYDRATING: &str = ".hydrating";

/// The manifest in force.
struct Published {
    manifest: Arc<Manifest>,
    /// How often the history in it has changed since it was loaded.
    history_version: u64,
}

pub(crate) struct Catalog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    published: Mutex<Published>,
    /// One change at a time; held while it is written. `None` if the directory was given up: another process may own it.
    owned: Mutex<Option<DirLock>>,
}

impl Catalog {
    /// `manifest` is what the data directory holds, which `lock` makes ours.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        manifest: Manifest,
        lock: DirLock,
    ) -> Self {
        Self {
            disk,
            dir,
            published: Mutex::new(Published {
                manifest: Arc::new(manifest),
                history_version: 0,
            }),
            owned: Mutex::new(Some(lock)),
        }
    }

    /// The last published manifest.
    pub(crate) fn current(&self) -> Arc<Manifest> {
        self.published.lock().manifest.clone()
    }

    /// The last published manifest, with a number that rises whenever its history changes.
    pub(crate) fn current_history(&self) -> (Arc<Manifest>, u64) {
        let published = self.published.lock();
        (published.manifest.clone(), published.history_version)
    }

    /// Changes the manifest. The change is durable when this returns. After an error the old manifest stays in force,
    /// unless the error is final.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        let owned = self.owned.lock();
        if owned.is_none() {
            return Err(given_up());
        }
        let before = self.current();
        let mut changed = Manifest::clone(&before);
        change(&mut changed);
        changed.store(&*self.disk, &self.dir)?;
        let has_other_history = changed.has_other_history(&before);
        let mut published = self.published.lock();
        published.manifest = Arc::new(changed);
        published.history_version += u64::from(has_other_history);
        Ok(())
    }

    /// Gives the directory up, for another process to open. Nothing may be writing to it.
    pub(crate) fn give_up(&self) {
        self.owned.lock().take();
    }

    /// Returns an error if the directory was given up.
    pub(crate) fn must_be_owned(&self) -> Result<()> {
        self.owned.lock().as_ref().map(drop).ok_or_else(given_up)
    }

    /// Where an object's file is, or will be; `None` if its namespace is unknown.
    pub(crate) fn object_path(&self, key: ObjectKey) -> Option<PathBuf> {
        object_path(&self.dir, &self.current(), key)
    }

    /// The directory of a namespace's object files; `None` if the namespace is unknown.
    pub(crate) fn namespace_dir(&self, namespace: NamespaceNo) -> Option<PathBuf> {
        namespace_dir(&self.dir, &self.current(), namespace)
    }

    /// Where the object files of a namespace with this unique key are, or were.
    pub(crate) fn dir_of(&self, unique_key: &str) -> PathBuf {
        dir_of(&self.dir, unique_key)
    }
}

/// Takes the lock of a data directory.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<DirLock> {
    disk.lock(&dir.join(LOCK)).map_err(|error| {
        let dir = dir.display();
        if error.kind() == std::io::ErrorKind::WouldBlock {
            let told = format!(
                "the data directory {dir} is in use by another process: stop that process or choose another directory"
            );
            Error::new(ErrorKind::InUse, told)
        } else {
            Error::io(format_args!("opening the data directory {dir}"), &error)
        }
    })
}

fn given_up() -> Error {
    Error::log_failed("it was closed")
}

fn namespace_dir(dir: &Path, manifest: &Manifest, namespace: NamespaceNo) -> Option<PathBuf> {
    Some(dir_of(dir, manifest.unique_key(namespace)?))
}

/// The directory of the object files of a namespace with this unique key.
fn dir_of(dir: &Path, unique_key: &str) -> PathBuf {
    dir.join("objects").join(directory_name(unique_key))
}

/// The file of an object in the data directory.
pub(crate) fn object_path(dir: &Path, manifest: &Manifest, key: ObjectKey) -> Option<PathBuf> {
    let namespace = namespace_dir(dir, manifest, key.namespace)?;
    let hex = key.id_hex();
    Some(namespace.join(&hex[..2]).join(format!("{hex}.sqlite")))
}

/// The file beside an object's file that says, while objects are hydrated, that the object has ended and needs none.
pub(crate) fn ended_path(path: &Path) -> PathBuf {
    beside(path, ENDED)
}

/// Where the replacement of an object's file that a commit continues is until a checkpoint renames it.
pub(crate) fn replacement_path(path: &Path, commit: CommitNo) -> PathBuf {
    beside(path, &format!(".next-{:08x}", commit.0))
}

/// Where an object's file is written before it is complete.
pub(crate) fn hydrating_path(path: &Path) -> PathBuf {
    beside(path, HYDRATING)
}

/// The id in a file's name, if the file is an object's, or says that the object has ended. A replacement is neither: its commit
/// may never be made.
pub(crate) fn id_in(name: &str) -> Option<[u8; 32]> {
    let name = name.strip_suffix(ENDED).unwrap_or(name);
    name.strip_suffix(".sqlite").and_then(ObjectKey::parse_id)
}

/// Returns whether it is the name of a file that only hydration needs.
pub(crate) fn is_of_hydration(name: &str) -> bool {
    name.ends_with(HYDRATING) || name.ends_with(ENDED)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Returns whether it is the name of a directory of object files: the first byte of their ids, in hex.
pub(crate) fn is_part(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Rejects a unique key that cannot name a namespace.
pub(crate) fn check_unique_key(unique_key: &str) -> Result<()> {
    if unique_key.is_empty() || unique_key.len() > 128 {
        return Err(Error::input(
            "the unique key of a namespace must have 1 to 128 bytes",
        ));
    }
    if directory_name(unique_key).len() > MAX_NAME_BYTES {
        return Err(Error::input(
            "the unique key of a namespace is too long for a directory name: use letters and digits",
        ));
    }
    Ok(())
}

/// The longest file name on Linux file systems (`NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// The directory name of a unique key: letters, digits, `-`, `_` and inner dots are kept, other bytes become `%XX`.
fn directory_name(unique_key: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    for (at, byte) in unique_key.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || (byte == b'.' && at > 0)
        {
            name.push(byte as char);
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::directory_name;

    #[test]
    fn a_unique_key_becomes_a_safe_directory_name() {
        assert_eq!(directory_name("FlightSeating"), "FlightSeating");
        assert_eq!(directory_name("../a b"), "%2E.%2Fa%20b");
    }
}
