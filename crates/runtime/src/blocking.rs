//! Work that reads files, away from the threads of objects.

use crate::{Error, ErrorKind, Result};

/// Runs work that reads files on its own thread.
pub(crate) async fn on_a_thread<R: Send + 'static>(
    work: impl FnOnce() -> abide_storage::Result<R> + Send + 'static,
) -> Result<R> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(Error::with_kind(ErrorKind::Io, error.to_string())),
    }
}
