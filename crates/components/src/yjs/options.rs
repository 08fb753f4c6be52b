//! How a document is kept.

use std::time::Duration;

use abide::{Error, ErrorKind, Result};
use abide_macros::Setters;

use super::limits;

/// How a document is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// Most bytes of the stored document, and of one message: a client that was offline may bring all of it. An
    /// update that does not fit is refused, and its connection is closed with 4413.
    pub max_document_bytes: u64,
    /// Most processor time of one update, besides [`limits::TIME_PER_KIB`]. An update that takes longer is refused,
    /// and its connection is closed with 4413.
    pub update_time: Duration,
    /// Updates are merged into a snapshot when this many have come since the last.
    pub compact_after_updates: u64,
    /// Bytes of updates after which they are merged into a snapshot; or as many as the last snapshot has, if that is
    /// more.
    pub compact_after_bytes: u64,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        Self {
            max_document_bytes: limits::DEFAULT_MAX_DOCUMENT_BYTES,
            update_time: limits::UPDATE_TIME,
            compact_after_updates: limits::DEFAULT_COMPACT_AFTER_UPDATES,
            compact_after_bytes: limits::DEFAULT_COMPACT_AFTER_BYTES,
        }
    }
}

impl DocumentOptions {
    pub(super) fn check(&self) -> Result<()> {
        let most = limits::MAX_DOCUMENT_BYTES;
        let refuse = |text: String| Err(Error::with_kind(ErrorKind::Input, text));
        if !(1..=most).contains(&self.max_document_bytes) {
            let bytes = self.max_document_bytes;
            return refuse(format!(
                "a document cannot have {bytes} bytes at most: say 1 to {most}"
            ));
        }
        if self.compact_after_updates == 0 || self.compact_after_bytes == 0 {
            return refuse(
                "updates are merged after 1 or more of them, of 1 byte or more".to_owned(),
            );
        }
        Ok(())
    }
}
