//! What a manifest in the store says of the node's archive.

use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// What a copy says of the archive that was copied: the content of a manifest in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistoryContent {
    version: u32,
    /// Every commit that was acknowledged before this time, in milliseconds since 1970, is in the copy.
    pub archived_millis: u64,
    /// True if it has a complete state of every object.
    pub is_complete: bool,
    /// Objects known to have no complete state in it.
    pub missing_objects: u64,
    /// Runs of the archive that are damaged, and not in the copy.
    pub damaged_runs: u64,
    /// The manifest of the data directory, for [`abide_storage::restore_directory`].
    pub manifest: String,
}

impl HistoryContent {
    pub(super) fn of(copy: abide_storage::HistoryCopy) -> Option<Self> {
        Some(Self {
            version: VERSION,
            archived_millis: copy.archived_millis,
            is_complete: copy.is_complete,
            missing_objects: copy.missing_objects,
            damaged_runs: copy.damaged.len() as u64,
            manifest: String::from_utf8(copy.manifest).ok()?,
        })
    }

    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    /// Reads the content of a manifest.
    ///
    /// # Errors
    /// If a newer program has written it. The message says so.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let unreadable = |error| format!("the manifest cannot be read: {error}");
        let Versioned { version } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if version != VERSION {
            return Err(format!(
                "the manifest has version {version}, and this program reads version {VERSION}: use the program that wrote it, or \
                 a newer one"
            ));
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}
