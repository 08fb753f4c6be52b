//! What can go wrong.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why history could not be copied or downloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL, an option, a file with a secret, or the key of the copies is wrong.
    #[error("{0}")]
    Configuration(String),
    /// The store did not answer, or refused.
    #[error("{action}: {source}")]
    Store {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file or a directory of this machine.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The history in the store belongs to another directory.
    #[error("{0}")]
    Owned(String),
    /// The store has no history that can be restored.
    #[error("{0}")]
    NoHistory(String),
    /// An object that a manifest lists is not in the store.
    #[error("{key} is listed but is not in the store")]
    Missing {
        /// Its key.
        key: String,
    },
    /// Something was read that differs from what was written.
    #[error("{what} is damaged: {how}")]
    Damaged {
        /// The object or file.
        what: String,
        /// How it differs.
        how: String,
    },
}

impl Error {
    /// True if trying again does not help: an operator has to decide.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Owned(_) | Self::Configuration(_))
    }

    /// True if the store knows the credentials, and they do not permit the request.
    pub(crate) fn is_denied(&self) -> bool {
        let Self::Store { source, .. } = self else {
            return false;
        };
        let error = source.downcast_ref::<object_store::Error>();
        matches!(error, Some(object_store::Error::PermissionDenied { .. }))
    }

    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, source }
    }

    pub(crate) fn store(
        action: String,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        Self::Store { action, source }
    }

    pub(crate) fn damaged(what: impl Into<String>, how: impl Into<String>) -> Self {
        Self::Damaged {
            what: what.into(),
            how: how.into(),
        }
    }
}
