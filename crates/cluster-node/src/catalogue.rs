//! The catalogue in the object store: what a cluster needs to continue if its database is lost for good.

use std::sync::Arc;

use abide_cluster_postgres::{Catalogue, Database, Error as DatabaseError};
use abide_history::{Store, missing_runs, newest_catalogue, put_catalogue, take_store};
use thiserror::Error;
use tracing::warn;

use crate::{JoinError, home::random, shared::Shared};

/// The version of the format.
const VERSION: u32 = 1;

/// Why a cluster was not rebuilt.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The object store has no catalogue.
    #[error("{0} has no catalogue of a cluster: is it the object store of the lost one?")]
    None(String),
    /// The catalogue is not one of this release.
    #[error("the catalogue in {0} cannot be read: {1}")]
    Unreadable(String, String),
    /// Runs of the catalogue are not in the object store.
    #[error(
        "{0} lacks {1} of the runs of history that its catalogue lists, among them {2}: restore the objects first"
    )]
    Missing(String, usize, String),
    /// The object store does not answer, or the key is not the right one.
    #[error(transparent)]
    Store(#[from] abide_history::Error),
    /// The database does not answer, or has the tables of a cluster.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The system gives no random bits.
    #[error(transparent)]
    System(#[from] JoinError),
}

/// Makes the tables of a cluster whose database is lost, in another database, from the catalogue in the object store. It is another cluster,
/// to which the object store belongs from now on: a node of the lost one that still runs makes no more runs and removes none. Returns the
/// catalogue: what the nodes had committed when it was written and no run had, and what they have committed since, is lost.
///
/// # Errors
/// See [`RebuildError`].
pub async fn rebuild(database: &Database, store: &Store) -> Result<Catalogue, RebuildError> {
    match database.check().await {
        Err(DatabaseError::NotInitialized) => {}
        Ok(()) | Err(DatabaseError::Older { .. } | DatabaseError::Newer { .. }) => {
            return Err(DatabaseError::Exists.into());
        }
        Err(error) => return Err(error.into()),
    }
    let lost = newest(store).await?;
    let places: Vec<&str> = lost.runs.iter().map(|run| &*run.place).collect();
    let missing = missing_runs(store, &places).await?;
    if let Some(first) = missing.first() {
        let place = store.location().to_string();
        return Err(RebuildError::Missing(
            place,
            missing.len(),
            (*first).to_owned(),
        ));
    }
    let name = random()?;
    take_store(store, name).await?;
    let rebuilt = database.rebuild(&lost, name).await?;
    if let Err(why) = put(store, &rebuilt).await {
        warn!(
            why,
            "the first catalogue of the cluster is not written; its nodes write one"
        );
    }
    Ok(lost)
}

/// The newest catalogue of a store.
async fn newest(store: &Store) -> Result<Catalogue, RebuildError> {
    let place = || store.location().to_string();
    let found = newest_catalogue(store).await?;
    let found = found.ok_or_else(|| RebuildError::None(place()))?;
    let catalogue: Catalogue = serde_json::from_slice(&found)
        .map_err(|error| RebuildError::Unreadable(place(), error.to_string()))?;
    if catalogue.version != VERSION {
        let why = format!("it has version {}, use a newer release", catalogue.version);
        return Err(RebuildError::Unreadable(place(), why));
    }
    Ok(catalogue)
}

async fn put(store: &Store, catalogue: &Catalogue) -> Result<(), String> {
    let text = serde_json::to_vec(catalogue).map_err(|error| error.to_string())?;
    let put = put_catalogue(store, catalogue.number, text.into()).await;
    put.map_err(|error| error.to_string())
}

/// Writes a catalogue. The session is the only one that does so now. Returns up to where it has the list of runs.
pub(crate) async fn write(shared: &Arc<Shared>) -> Result<u64, String> {
    let (database, id) = (&shared.database, shared.id());
    let read = database.catalogue(id).await;
    let read = read.map_err(|error| error.to_string())?;
    let read = read.ok_or("the session has ended")?;
    put(&shared.object_store, &read).await?;
    let noted = database.catalogued_runs(id, read.seq).await;
    noted.map_err(|error| error.to_string())?;
    Ok(read.seq)
}
