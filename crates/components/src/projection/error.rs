//! What a projection answers when it does not do what it is asked.

use abide::{Error, ErrorKind};
use thiserror::Error;

use crate::queue::QueueError;

/// Why a projection did not do what it was asked.
#[derive(Clone, Debug, Error)]
pub enum ProjectionError {
    /// A row or a declaration makes no sense; the text says what would. Nothing changed.
    #[error("{0}")]
    Invalid(String),
    /// The read model cannot be reached, is too slow, or is not as it has to be: a privilege is missing, a column is gone, the
    /// disk is full. No row is to blame, and it may be mended.
    #[error("the read model is not there, or not ready: {0}")]
    Unavailable(String),
    /// The read model refuses a row or a query for what it says, and will again.
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
