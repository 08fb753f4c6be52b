//! The directory of a node.
//!
//! | name | what it is |
//! |---|---|
//! | `LOCK` | locked by the process that uses the directory |
//! | `node.json` | the random id of the directory, and the number of the last attempt to begin a session |
//! | `session-N` | the store of the session that attempt N began; removed by the next one |

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::JoinError;

/// The version of `node.json`.
const VERSION: u32 = 1;

/// The directory of a node, which this process has locked.
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
}

/// A file without the fields that other versions may have.
#[derive(Deserialize)]
struct AnyNode {
    version: u32,
}

impl Home {
    /// Opens a directory, or creates it.
    ///
    /// # Errors
    /// [`JoinError::InUse`], [`JoinError::Directory`], [`JoinError::Refused`].
    pub fn open(dir: &Path) -> Result<Self, JoinError> {
        fs::create_dir_all(dir).map_err(failed(dir))?;
        let path = dir.join("LOCK");
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
        let path = dir.join("node.json");
        let node = match fs::read(&path) {
            Ok(text) => read(&path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Node {
                version: VERSION,
                id: format!("{:032x}", random()?),
                attempt: 0,
            },
            Err(error) => return Err(failed(&path)(error)),
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
        let node = Node {
            attempt: self.node.attempt + 1,
            ..self.node.clone()
        };
        let path = self.dir.join("node.json");
        let new = self.dir.join("node.json.new");
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
        Ok(self.node.attempt)
    }

    /// An empty directory for the store of the last attempt. Those of earlier ones are removed.
    pub(crate) fn session_dir(&self) -> Result<PathBuf, JoinError> {
        for entry in fs::read_dir(&self.dir).map_err(failed(&self.dir))? {
            let entry = entry.map_err(failed(&self.dir))?;
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix("session-"))
                .map(str::parse::<u64>);
            if let Some(Ok(_)) = number {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(failed(&path))?;
            }
        }
        Ok(self.dir.join(format!("session-{}", self.node.attempt)))
    }
}

fn read(path: &Path, text: &[u8]) -> Result<Node, JoinError> {
    let refused = |why: String| JoinError::Refused {
        path: path.to_owned(),
        why,
    };
    let unreadable = |error: serde_json::Error| refused(format!("it is damaged: {error}"));
    let AnyNode { version } = serde_json::from_slice(text).map_err(unreadable)?;
    if version != VERSION {
        let why =
            format!("it has version {version}, and this release knows {VERSION}: use a newer one");
        return Err(refused(why));
    }
    let node: Node = serde_json::from_slice(text).map_err(unreadable)?;
    match u128::from_str_radix(&node.id, 16) {
        Ok(_) => Ok(node),
        Err(error) => Err(refused(format!("it is damaged: id: {error}"))),
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
    fn only_stores_of_earlier_sessions_are_removed() {
        let dir = TempDir::new().unwrap();
        let names = ["session-1", "session-7", "session-x", "other", "sessions-3"];
        for name in names {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("file"), "").unwrap();
        }
        let mut home = Home::open(dir.path()).unwrap();
        home.attempt().unwrap();
        let own = home.session_dir().unwrap();
        assert_eq!(own, dir.path().join("session-1"));
        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [false, false, true, true, true]);
    }

    #[test]
    fn a_file_of_another_version_or_a_damaged_one_is_refused_and_stays() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("node.json");
        for (text, told) in [
            (r#"{"version":2,"node":"x"}"#, "version 2"),
            (r#"{"version":1,"id":"xyz","attempt":1}"#, "damaged"),
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
