//! The list of runs, as the store has it.

use std::sync::Arc;

use abide_storage::SharedRun;
use tokio::sync::Mutex;

use crate::shared::{Shared, blocking};

/// How much of the list the store has: the runs up to this place in the database.
#[derive(Default)]
pub(crate) struct Runs(Mutex<u64>);

impl Runs {
    /// Gives the store all runs that are listed by now.
    pub(crate) async fn list(shared: &Arc<Shared>) -> Result<(), String> {
        let mut listed = shared.runs.0.lock().await;
        let new = shared.database.runs(*listed).await;
        let new = new.map_err(|error| format!("the list of runs: {error}"))?;
        let Some(last) = new.last().map(|run| run.seq) else {
            return Ok(());
        };
        let runs = new.into_iter().map(|run| SharedRun {
            about: run.stored.about,
            place: run.stored.place,
        });
        let runs: Vec<_> = runs.collect();
        let done = blocking(shared, move |shared| shared.store.list_runs(&runs)).await;
        let done = done.ok_or("listing runs panicked")?;
        done.map_err(|error| error.to_string())?;
        *listed = last;
        Ok(())
    }
}
