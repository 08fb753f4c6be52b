//! A thread with a connection that runs one job at a time.

use std::{panic::AssertUnwindSafe, thread};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};

use super::ProjectionError;

type Answer<T> = oneshot::Sender<Result<T, ProjectionError>>;

/// A job for a connection.
pub(super) type Job<C> = Box<dyn FnOnce(&mut C) -> BoxJob<'_> + Send>;

/// The job's function.
pub(super) type BoxJob<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A handle to the thread, which stops with the last clone of it.
pub(super) struct Worker<C>(mpsc::UnboundedSender<Job<C>>);

impl<C: Send + 'static> Worker<C> {
    /// Starts two threads, each with its own connection: one for writes, and one for reads.
    pub(super) fn pair(connection: impl Fn() -> C) -> Result<(Self, Self), ProjectionError> {
        let start = |name| {
            Self::start(name, connection())
                .map_err(|error| ProjectionError::Unavailable(error.to_string()))
        };
        Ok((start("read-model-writer")?, start("read-model-reader")?))
    }

    fn start(name: &str, mut connection: C) -> std::io::Result<Self> {
        let (sender, mut jobs) = mpsc::unbounded_channel::<Job<C>>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    while let Some(job) = jobs.recv().await {
                        let done = AssertUnwindSafe(job(&mut connection)).catch_unwind();
                        if done.await.is_err() {
                            tracing::error!("a read model's thread panicked and continues");
                        }
                    }
                });
            })?;
        Ok(Self(sender))
    }

    /// Runs a job, and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut C) -> Result<T, ProjectionError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ProjectionError>> {
        let (answer, result): (Answer<T>, _) = oneshot::channel();
        let job: Job<C> = Box::new(move |connection: &mut C| -> BoxJob<'_> {
            Box::pin(async move {
                // The caller may no longer be waiting.
                if !answer.is_closed() {
                    let _ = answer.send(work(connection).await);
                }
            })
        });
        let sent = self.0.send(job);
        Box::pin(async move {
            let gone = || ProjectionError::Unavailable("its thread panicked".to_owned());
            sent.map_err(|_| gone())?;
            result.await.map_err(|_| gone())?
        })
    }
}

impl<C> std::fmt::Debug for Worker<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}
