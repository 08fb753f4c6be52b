//! Work of operators, and of forks, on the database of an object, which its worker holds in the meantime.

use abide_storage::Store;
use tokio::sync::oneshot;

use crate::{
    AnyStub, Error, Result,
    envelope::{AdminTask, Message, Purpose, Tell},
};

impl AnyStub {
    /// Holds the object on its worker while work on its database runs on another thread.
    pub(crate) async fn held_for<R: Send + 'static>(
        &self,
        purpose: Purpose,
        work: impl FnOnce(&Store) -> abide_storage::Result<R> + Send + 'static,
    ) -> Result<R> {
        self.router().must_run()?;
        let (done, result) = oneshot::channel();
        let (refused, refusal) = oneshot::channel();
        let work = Box::new(move |store: &Store| {
            let result = work(store);
            let tell: Tell = Box::new(move || {
                // The caller may be gone.
                let _ = done.send(result);
            });
            tell
        });
        self.worker().send(Message::AdminTask(AdminTask {
            binding: self.binding_index(),
            id: self.id(),
            purpose,
            work,
            refused,
        }))?;
        match result.await {
            Ok(result) => Ok(result?),
            // The work was dropped: rejected, or the node is stopping.
            Err(_) => Err(refusal.await.unwrap_or_else(|_| Error::stopping())),
        }
    }
}
