//! Quarantined objects, as the manifest lists them.

use super::archive::RunMeta;
use serde::{Deserialize, Serialize};

/// The manifest's entry of a quarantined object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quarantine {
    pub(crate) why: String,
    /// The pages that its file lacks, if any.
    pub(crate) pages: Option<Saved>,
    /// Set once a repair has begun.
    pub(crate) aside: Option<Aside>,
    /// The object was deleted, and its file could not be removed.
    pub(crate) ended: bool,
}

/// Pages of a quarantined object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) run: RunMeta,
    pub(crate) continues: Continues,
}

/// What saved pages belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Continues {
    /// They are the whole object, whatever its file has.
    Nothing,
    /// They are known to continue the file.
    File,
    /// They continue the file if it has the commit before this one.
    From(u32),
}

/// What a repair does with the file that it replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Aside {
    /// There is no file to replace.
    Nothing,
    /// The file has this name in the same directory, or is about to get it.
    File(String),
}

impl Quarantine {
    /// The quarantine of an object whose file lacks nothing.
    pub(crate) fn new(why: String) -> Self {
        Self {
            why,
            pages: None,
            aside: None,
            ended: false,
        }
    }
}
