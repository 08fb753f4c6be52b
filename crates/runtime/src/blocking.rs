//! Work that reads files, away from the threads of objects.

use abide_storage::Store;
use tokio::task::{JoinError, spawn_blocking, yield_now};

use crate::{Error, ErrorKind, Result};

/// Runs work that reads files on its own thread.
pub(crate) async fn on_a_thread<R: Send + 'static>(
    work: impl FnOnce() -> abide_storage::Result<R> + Send + 'static,
) -> Result<R> {
    match spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(Error::with_kind(ErrorKind::Io, error.to_string())),
    }
}

/// Runs work on the files of a store on its own thread. A store without threads leaves it to its caller.
pub(crate) async fn for_store<R: Send + 'static>(
    store: Store,
    work: impl FnOnce(&Store) -> R + Send + 'static,
) -> Result<R, JoinError> {
    if store.has_threads() {
        return spawn_blocking(move || work(&store)).await;
    }
    yield_now().await;
    Ok(work(&store))
}
