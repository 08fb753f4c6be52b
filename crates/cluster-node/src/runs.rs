//! The list of runs, as the store has it, and what is put into the object store to be listed.

use std::{fs, sync::Arc};

use abide_cluster::Stored;
use abide_history::{Options, Writer, copy_run, discard_run, mark_store};
use abide_storage::{SharedRun, WrittenRun};
use tokio::sync::Mutex;
use tracing::warn;

use crate::{
    home::random,
    shared::{Shared, blocking},
};

/// How much of the list the store has: the runs up to this place in the database.
#[derive(Default)]
pub(crate) struct Runs(Mutex<u64>);

impl Runs {
    /// Gives the store all runs that are listed by now. Returns up to where it has the list.
    pub(crate) async fn list(shared: &Arc<Shared>) -> Result<u64, String> {
        let mut listed = shared.runs.0.lock().await;
        let new = shared.database.runs(shared.id(), *listed).await;
        let new = new.map_err(|error| format!("the list of runs: {error}"))?;
        let new = new.ok_or("the session has ended")?;
        let Some(last) = new.iter().map(|run| run.seq).max() else {
            return Ok(*listed);
        };
        let runs = new.into_iter().map(|run| SharedRun {
            about: run.about,
            place: run.place,
            first: run.first,
            last: run.last,
        });
        let runs: Vec<_> = runs.collect();
        let done = blocking(shared, move |shared| shared.store.list_runs(&runs)).await;
        let done = done.ok_or("listing runs panicked")?;
        done.map_err(|error| error.to_string())?;
        *listed = last;
        Ok(last)
    }
}

/// A number for a run, which no other run has.
pub(crate) fn new_number() -> Result<u64, String> {
    let drawn = random().map_err(|error| error.to_string())?;
    Ok(drawn as u64 >> 2)
}

/// Puts a run into the object store, and removes its file.
pub(crate) async fn upload(
    shared: &Shared,
    number: u64,
    written: Written,
) -> Result<Stored, String> {
    let session = abide_history::Session::new(shared.id().nonce);
    let (store, writer) = (&shared.object_store, Writer::new(shared.node as u64));
    let path = &written.0.path;
    let copied = copy_run(store, writer, session, number, path, &Options::default()).await;
    if copied.is_err()
        && let Err(error) = discard_run(store, writer, session, number).await
    {
        warn!(%error, "parts of a run that was not put into the object store may stay there");
    }
    let place = copied.and_then(|run| run.place());
    Ok(Stored {
        about: written.0.about.clone(),
        place: place.map_err(|error| error.to_string())?,
    })
}

/// Checks that the object store is the cluster's: runs in the store of others are lost for those who share the objects. Asks each time,
/// since the cluster may have been rebuilt from its store meanwhile.
pub(crate) async fn must_be_own_store(shared: &Shared) -> Result<(), String> {
    let marked = mark_store(&shared.object_store, shared.cluster).await;
    marked.map_err(|error| error.to_string())
}

/// A run on this disk, which is removed with this.
pub(crate) struct Written(pub(crate) WrittenRun);

impl Drop for Written {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0.path) {
            warn!(%error, path = %self.0.path.display(), "a file stays until the next start");
        }
    }
}
