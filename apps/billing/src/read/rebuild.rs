//! Rebuilds the read model from the resources.

use abide::Env;
use abide::{
    projection::{Progress, Projection, ProjectionError, ReadModel},
    queue::Queue,
};

use crate::{Time, resources::Stored};

/// The result of a rebuild.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// How many resources were asked, and how many failed.
    pub progress: Progress,
    /// Failed resources and their errors; not all if they are many.
    pub failures: Vec<String>,
}

/// Rebuilds the read model of a node: removes every row, and lets each resource write its row again. Billing continues
/// in the meantime, and readers see the rows that exist so far. A failing resource is recorded, and others continue. If
/// none fails, changes that the read model had rejected before are obsolete: their dead letters are discarded, except
/// those of the rebuild.
///
/// # Errors
/// If the read model cannot be emptied, or the node has none.
pub async fn rebuild(
    env: &Env,
    model: &dyn ReadModel,
    progress: impl FnMut(&Progress),
) -> Result<Rebuilt, ProjectionError> {
    let projection = env.require::<Projection>()?;
    let began = Time::now(&**env.clock());
    let stored = Stored::all(env)?;
    let ask = async |stored: Stored| stored.feed_again(env).await;
    let all = stored.clone();
    let progress = projection.rebuild(env, model, all, ask, progress).await?;
    if progress.failed == 0 {
        let queue = Queue::new(env, projection.queue())?;
        queue.discard_before(began.0).await?;
    }
    let mut failures = Vec::new();
    for (place, error) in &progress.failures {
        failures.push(format!("{}: {error}", stored[*place].name(env).await));
    }
    Ok(Rebuilt { progress, failures })
}
