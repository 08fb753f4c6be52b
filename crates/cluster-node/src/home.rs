//! The directory of a node.
//!
//! | name | what it is |
//! |---|---|
//! | `LOCK` | locked by the process that uses the directory |
//! | `node.json` | the random id of the directory, and the number of the last attempt to begin a session |
//! | `sessions/N` | the store of the session that attempt N began; removed by the next one |

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use abide_storage::NODE_FILE;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::JoinError;

/// The version of `node.json`.
const VERSION: u32 = 1;

const LOCK: &str = "LOCK";
const NEW_NODE: &str = "node.json.new";
/// What a host keeps beside: tokens, which are created before the first start, and a socket for commands.
const OF_HOSTS: [&str; 4] = ["access.db", "access.db-wal", "access.db-shm", "admin.sock"];

const SESSIONS: &str = "sessions";

/// The directory of a node, which this process has locked.
///
/// A new session fences the earlier ones of its directory at once: who has the lock knows that their processes have ended. So a copy
/// of the files, which anyone can lock, becomes a new node. A clone of the disk is noticed when the original has begun more sessions
/// than it, and becomes a new node then: never start both.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    node: Node,
    _lock: File,
}

/// The contents of `node.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Node {
    version: u32,
    /// 128 bits in hex.
    id: String,
    attempt: u64,
    /// The device and the inode of `LOCK`. They are others in a copy, and can be others after a restart of the machine.
    lock: (u64, u64),
}

/// A file without the fields that other versions may have.
#[derive(Deserialize)]
struct AnyNode {
    version: u32,
}

impl Home {
    /// Opens a directory, or creates it. It must be empty, or have been created by this.
    ///
    /// # Errors
    /// [`JoinError::InUse`], [`JoinError::Directory`], [`JoinError::Refused`].
    pub fn open(dir: &Path) -> Result<Self, JoinError> {
        fs::create_dir_all(dir).map_err(failed(dir))?;
        if !dir.join(NODE_FILE).exists() {
            must_be_empty(dir)?;
        }
        let path = dir.join(LOCK);
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let lock = lock.map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JoinError::InUse(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
        }
        // With the lock: another process may just have written it.
        let path = dir.join(NODE_FILE);
        let known = match fs::read(&path) {
            Ok(text) => Some(read(&path, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&path)(error)),
        };
        let metadata = lock.metadata().map_err(failed(dir))?;
        let place = (metadata.dev(), metadata.ino());
        let node = match known {
            Some(node) if node.lock == place => node,
            other => {
                if other.is_some() {
                    warn!(dir = %dir.display(), "the directory was moved or copied: it becomes a new node");
                }
                Node {
                    version: VERSION,
                    id: format!("{:032x}", random()?),
                    attempt: other.map_or(0, |node| node.attempt),
                    lock: place,
                }
            }
        };
        Ok(Self {
            dir: dir.to_owned(),
            node,
            _lock: lock,
        })
    }

    /// Its random id.
    pub fn id(&self) -> u128 {
        u128::from_str_radix(&self.node.id, 16).unwrap_or_default()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of a new attempt to begin a session, which is durable.
    pub(crate) fn attempt(&mut self) -> Result<u64, JoinError> {
        self.write(Node {
            attempt: self.node.attempt + 1,
            ..self.node.clone()
        })?;
        Ok(self.node.attempt)
    }

    /// Makes the directory a new node, durably: another process uses its id.
    pub(crate) fn begin_anew(&mut self) -> Result<(), JoinError> {
        self.write(Node {
            id: format!("{:032x}", random()?),
            ..self.node.clone()
        })
    }

    fn write(&mut self, node: Node) -> Result<(), JoinError> {
        let path = self.dir.join(NODE_FILE);
        let new = self.dir.join(NEW_NODE);
        let written = || {
            let text = serde_json::to_vec(&node)?;
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        written().map_err(failed(&path))?;
        self.node = node;
        Ok(())
    }

    /// The directory for the store of the last attempt, which does not exist yet. Those of earlier ones are removed.
    pub(crate) fn session_dir(&self) -> Result<PathBuf, JoinError> {
        let sessions = self.dir.join(SESSIONS);
        fs::create_dir_all(&sessions).map_err(failed(&sessions))?;
        for entry in fs::read_dir(&sessions).map_err(failed(&sessions))? {
            let path = entry.map_err(failed(&sessions))?.path();
            fs::remove_dir_all(&path).map_err(failed(&path))?;
        }
        Ok(sessions.join(self.node.attempt.to_string()))
    }
}

/// A directory that is something else is left alone.
fn must_be_empty(dir: &Path) -> Result<(), JoinError> {
    for entry in fs::read_dir(dir).map_err(failed(dir))? {
        let name = entry.map_err(failed(dir))?.file_name();
        let is_own = [LOCK, NEW_NODE, "lost+found"]
            .iter()
            .chain(&OF_HOSTS)
            .any(|own| name == *own);
        if !is_own {
            return Err(JoinError::Refused {
                path: dir.to_owned(),
                why: format!(
                    "it has {} and no {NODE_FILE}, so it is not a node's: give an empty directory",
                    name.display()
                ),
            });
        }
    }
    Ok(())
}

fn read(path: &Path, text: &[u8]) -> Result<Node, JoinError> {
    let refused = |why: String| JoinError::Refused {
        path: path.to_owned(),
        why,
    };
    let damaged = |why: String| {
        refused(format!(
            "it is damaged ({why}): give an empty directory, which becomes a new node"
        ))
    };
    let unreadable = |error: serde_json::Error| damaged(error.to_string());
    let AnyNode { version } = serde_json::from_slice(text).map_err(unreadable)?;
    if version != VERSION {
        return Err(refused(format!(
            "it has version {version}, and this release knows version {VERSION}"
        )));
    }
    let node: Node = serde_json::from_slice(text).map_err(unreadable)?;
    match u128::from_str_radix(&node.id, 16) {
        Ok(_) => Ok(node),
        Err(error) => Err(damaged(format!("id: {error}"))),
    }
}

/// 128 random bits.
pub(crate) fn random() -> Result<u128, JoinError> {
    let mut bits = [0; 16];
    let filled = getrandom::fill(&mut bits);
    filled.map_err(|error| JoinError::System(format!("no random bits: {error}")))?;
    Ok(u128::from_le_bytes(bits))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> JoinError {
    let path = path.to_owned();
    move |source| JoinError::Directory {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn attempts_are_counted_across_starts_and_the_id_stays() {
        let dir = TempDir::new().unwrap();
        let mut home = Home::open(dir.path()).unwrap();
        assert_eq!(home.attempt().unwrap(), 1);
        assert_eq!(home.attempt().unwrap(), 2);
        let id = home.id();
        drop(home);
        let mut home = Home::open(dir.path()).unwrap();
        assert_eq!((home.id(), home.attempt().unwrap()), (id, 3));
        assert_ne!(id, 0);
    }

    #[test]
    fn a_directory_has_one_process() {
        let dir = TempDir::new().unwrap();
        let home = Home::open(dir.path()).unwrap();
        assert!(matches!(Home::open(dir.path()), Err(JoinError::InUse(_))));
        drop(home);
        Home::open(dir.path()).unwrap();
    }

    #[test]
    fn a_copy_is_another_node() {
        let dir = TempDir::new().unwrap();
        let (original, copy) = (dir.path().join("original"), dir.path().join("copy"));
        let mut home = Home::open(&original).unwrap();
        home.attempt().unwrap();
        fs::create_dir(&copy).unwrap();
        for name in [LOCK, NODE_FILE] {
            fs::copy(original.join(name), copy.join(name)).unwrap();
        }
        let mut other = Home::open(&copy).unwrap();
        assert_ne!(other.id(), home.id());
        other.attempt().unwrap();
        let id = other.id();
        drop(other);
        assert_eq!(Home::open(&copy).unwrap().id(), id);
    }

    #[test]
    fn stores_of_earlier_sessions_are_removed() {
        let dir = TempDir::new().unwrap();
        let mut home = Home::open(dir.path()).unwrap();
        for attempt in 1..4 {
            assert_eq!(home.attempt().unwrap(), attempt);
            let own = home.session_dir().unwrap();
            assert!(!own.exists());
            fs::create_dir(&own).unwrap();
            fs::write(own.join("file"), "").unwrap();
            let left = fs::read_dir(dir.path().join(SESSIONS)).unwrap();
            assert_eq!(left.count(), 1);
        }
    }

    #[test]
    fn a_directory_with_other_files_is_refused_and_stays() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("MANIFEST"), "x").unwrap();
        let error = Home::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("MANIFEST"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_another_version_or_a_damaged_one_is_refused_and_stays() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join(NODE_FILE);
        for (text, told) in [
            (r#"{"version":2,"node":"x"}"#, "version 2"),
            (
                r#"{"version":1,"id":"xyz","attempt":1,"lock":[1,2]}"#,
                "damaged",
            ),
            (r#"{"version":1,"id":"0f""#, "damaged"),
            ("", "damaged"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Home::open(dir.path()).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
