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
}

/// Pages of a quarantined object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) run: RunMeta,
    /// The number of the first commit that they belong to; `None` if they are known to continue the file.
    pub(crate) first: Option<u32>,
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
        }
    }
}
