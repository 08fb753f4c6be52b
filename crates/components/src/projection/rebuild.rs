//! Rebuilding a read model from the objects.

use std::time::Duration;

use abide::{AnyNamespace, Env, Node, ObjectId, Result};
use futures_util::{StreamExt, stream};

use super::{Projection, ProjectionError, ReadModel, limits};
use crate::queue::Queue;

/// The progress of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// All sources.
    pub sources: usize,
    /// Sources that have put their rows again.
    pub asked: usize,
    /// Sources that failed.
    pub failed: usize,
    /// Messages that wait for the read model.
    pub waiting: u64,
    /// Why some failed: the index of the source, counted from 0, and the error; at most [`limits::MAX_FAILURES`].
    pub failures: Vec<(usize, String)>,
}

impl Progress {
    /// The completed share, from 0 to 1, for a progress bar.
    pub fn share(&self) -> f64 {
        if self.sources == 0 {
            return 1.0;
        }
        (self.asked + self.failed) as f64 / self.sources as f64
    }
}

/// The ids of the objects of a namespace that have been written. Reads directories.
pub fn sources(node: &Node, namespace: &AnyNamespace) -> Result<Vec<ObjectId>> {
    let keys = node.store().objects(namespace.number())?;
    keys.into_iter().map(|key| key.id_hex().parse()).collect()
}

impl Projection {
    /// Rebuilds a read model: deletes every row, asks each source to [put](super::Feed::put) its rows again, and waits
    /// until the read model has them. `ask` calls a method of the source that does so; it is called for
    /// [`limits::REBUILD_CONCURRENCY`] sources at a time. Objects keep working meanwhile, and readers see the rows
    /// written so far. A busy source is asked again, up to [`limits::REBUILD_ATTEMPTS`] times. A failure of a source is
    /// recorded, and the others continue.
    ///
    /// # Errors
    /// If the read model cannot be emptied, or the queue is not there.
    pub async fn rebuild<S: Clone>(
        &self,
        env: &Env,
        model: &dyn ReadModel,
        sources: impl IntoIterator<Item = S>,
        ask: impl AsyncFn(S) -> Result<()>,
        mut progress: impl FnMut(&Progress),
    ) -> Result<Progress, ProjectionError> {
        let queue = Queue::new(env, &self.queue)?;
        model.wipe().await?;
        let sources: Vec<S> = sources.into_iter().collect();
        let mut done = Progress {
            sources: sources.len(),
            ..Progress::default()
        };
        progress(&done);
        let asked = sources.into_iter().enumerate();
        let asked = asked.map(async |(index, source)| (index, insist(env, &ask, source).await));
        let mut asked = stream::iter(asked).buffer_unordered(limits::REBUILD_CONCURRENCY);
        while let Some((index, result)) = asked.next().await {
            match result {
                Ok(()) => done.asked += 1,
                Err(error) => {
                    done.failed += 1;
                    if done.failures.len() < limits::MAX_FAILURES {
                        done.failures.push((index, error.to_string()));
                    }
                }
            }
            progress(&done);
        }
        drop(asked);
        self.wait(env, &queue, &mut done, progress).await?;
        Ok(done)
    }

    /// Waits until the queue has been empty for as long as feeds take to send their rows.
    async fn wait(
        &self,
        env: &Env,
        queue: &Queue,
        done: &mut Progress,
        mut progress: impl FnMut(&Progress),
    ) -> Result<(), ProjectionError> {
        let clock = env.clock();
        let mut quiet = Duration::ZERO;
        while quiet < limits::REBUILD_LOOK * 2 {
            let waiting = match queue.counts().await {
                Ok(counts) => counts.messages.unsigned_abs(),
                // It is too busy to respond.
                Err(error) if error.retryable() => done.waiting.max(1),
                Err(error) => return Err(error.into()),
            };
            quiet += limits::REBUILD_LOOK;
            if waiting > 0 {
                quiet = Duration::ZERO;
            }
            if waiting != done.waiting {
                done.waiting = waiting;
                progress(done);
            }
            clock.sleep_until(clock.now() + limits::REBUILD_LOOK).await;
        }
        Ok(())
    }
}

/// Asks a source, and again after a while if it could not start.
async fn insist<S: Clone>(env: &Env, ask: &impl AsyncFn(S) -> Result<()>, source: S) -> Result<()> {
    let clock = env.clock();
    for _ in 1..limits::REBUILD_ATTEMPTS {
        match ask(source.clone()).await {
            Err(error) if error.retryable() => {
                clock.sleep_until(clock.now() + limits::REBUILD_LOOK).await;
            }
            done => return done,
        }
    }
    ask(source).await
}
