//! The read model made anew from the resources.

use abide::Env;
use abide::{
    projection::{Progress, Projection, ProjectionError, ReadModel},
    queue::Queue,
};

use crate::{Time, resources::Stored};

/// What a rebuild has come to.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// How many resources were asked, and how many failed.
    pub progress: Progress,
    /// Which of them failed, and why; not all if they are many.
    pub failures: Vec<String>,
}

/// Makes the read model of a node anew: removes every row, and has each resource tell again what is. Billing goes on meanwhile,
/// and whoever reads sees what is there by then. A resource that fails is noted, and others go on. If none does, what the read
/// model had not taken before is not wanted any more: its dead letters are discarded, but those of the rebuild.
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
