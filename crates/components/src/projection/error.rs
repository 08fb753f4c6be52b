//! Errors of projections.

use abide::{Error, ErrorKind};
use thiserror::Error;

use crate::queue::QueueError;

/// Why a projection refused a request.
#[derive(Clone, Debug, Error)]
pub enum ProjectionError {
    /// A row or a declaration is invalid; the text says what is valid. Nothing changed.
    #[error("{0}")]
    Invalid(String),
    /// The read model is unreachable, too slow, or misconfigured: a privilege is missing, a column is gone, the disk is
    /// full. No row is to blame, and it can be fixed.
    #[error("the read model is unavailable or not ready: {0}")]
    Unavailable(String),
    /// The read model refuses a row or a query because of its content, and will refuse it again.
    #[error("the read model refuses it: {0}")]
    Refused(String),
    /// The queue between objects and the read model refuses.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The storage failed, or an object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl From<ProjectionError> for Error {
    fn from(error: ProjectionError) -> Self {
        let kind = match error {
            ProjectionError::Object(error) => return error,
            ProjectionError::Queue(error) => return error.into(),
            ProjectionError::Invalid(_) => ErrorKind::Input,
            ProjectionError::Unavailable(_) => ErrorKind::Unavailable,
            ProjectionError::Refused(_) => ErrorKind::Application,
        };
        Self::with_kind(kind, error.to_string())
    }
}
