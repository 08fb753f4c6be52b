//! What is noted of the proof in the data directory: `proof.json`.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_DIFFERENCES, PROOF_SLICES};

const VERSION: u32 = 1;
const NAME: &str = "proof.json";

/// See the module. Times are in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notes {
    version: u32,
    /// The store that it is about.
    url: String,
    /// The slice that is proven next.
    pub(super) next: u32,
    /// When.
    pub(super) due: u64,
    /// When each slice was proven last; at first, when the proofs began.
    pub(super) proven: Vec<u64>,
    pub(super) differences: Vec<Difference>,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Difference {
    pub(super) of: Subject,
    /// How.
    pub(super) how: String,
    /// When it was found first.
    pub(super) found: u64,
}

/// What was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
    /// An object, by its class and its id in hex digits.
    Object { class: String, id: String },
    /// A run, by its key in the store.
    Run { key: String },
    /// The lists of objects in the copy, as far as they are of a slice.
    Lists { slice: u32 },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Subject::Object { class, id } => write!(f, "object {class}/{id}: {}", self.how),
            Subject::Run { key } => write!(f, "{key}: {}", self.how),
            Subject::Lists { .. } => write!(f, "the list of objects: {}", self.how),
        }
    }
}

impl Notes {
    /// What is noted of a store. Without any, all begins now, with a slice and at a moment by chance.
    pub(super) fn open(dir: &Path, url: &str, interval: Duration, now: u64) -> Self {
        let read = fs::read(dir.join(NAME)).ok();
        let read = read.and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        let is_usable = |notes: &Self| {
            notes.version == VERSION
                && notes.url == url
                && notes.next < PROOF_SLICES
                && notes.proven.len() == PROOF_SLICES as usize
                && notes.differences.len() <= MAX_DIFFERENCES
        };
        read.filter(is_usable).unwrap_or_else(|| {
            let chance = getrandom::u64().unwrap_or(now);
            let interval = u64::try_from(interval.as_millis())
                .unwrap_or(u64::MAX)
                .max(1);
            Self {
                version: VERSION,
                url: url.to_owned(),
                next: (chance % u64::from(PROOF_SLICES)) as u32,
                due: now.saturating_add((chance >> 8) % interval),
                proven: vec![now; PROOF_SLICES as usize],
                differences: Vec::new(),
            }
        })
    }

    /// Since when everything was proven.
    pub(super) fn proven_since(&self) -> u64 {
        self.proven.iter().copied().min().unwrap_or(0)
    }

    /// Replaces the file as a whole, durably.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let new = dir.join(format!("{NAME}.new"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, dir.join(NAME))?;
        File::open(dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive_a_restart_and_count_for_one_store() {
        let dir = tempfile::tempdir().unwrap();
        let day = Duration::from_hours(24);
        let mut notes = Notes::open(dir.path(), "s3://a", day, 1_000);
        assert!(notes.due < 1_000 + 86_400_000 && notes.next < PROOF_SLICES);
        assert_eq!(notes.proven_since(), 1_000);
        notes.proven.fill(7_000);
        notes.proven[3] = 5_000;
        notes.differences.push(Difference {
            of: Subject::Lists { slice: 3 },
            how: "damaged".to_owned(),
            found: 4,
        });
        notes.write(dir.path()).unwrap();
        let read = Notes::open(dir.path(), "s3://a", day, 9_000);
        assert_eq!(read, notes);
        assert_eq!(read.proven_since(), 5_000);
        let other = Notes::open(dir.path(), "s3://b", day, 9_000);
        assert_eq!((other.proven_since(), other.differences.len()), (9_000, 0));
        fs::write(dir.path().join(NAME), "{").unwrap();
        let fresh = Notes::open(dir.path(), "s3://a", day, 9_000);
        assert_eq!(fresh.proven_since(), 9_000);
    }
}
