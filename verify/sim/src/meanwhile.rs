//! In a real node a checkpoint has its own thread: while it waits for the disk, objects continue. The simulation has
//! only one thread, so the node's futures run a little whenever a checkpoint syncs a file.

use std::{cell::RefCell, path::Path, rc::Rc};

use crate::executor::Executor;

/// How often everything that is ready runs during one sync.
const ROUNDS: u32 = 3;

thread_local! {
    static EXECUTOR: RefCell<Option<Rc<Executor>>> = const { RefCell::new(None) };
}

/// Runs work that waits for the disk, while the node continues.
pub(crate) fn beside<R>(executor: &Rc<Executor>, work: impl FnOnce() -> R) -> R {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            EXECUTOR.take();
        }
    }
    EXECUTOR.replace(Some(Rc::clone(executor)));
    let _guard = Guard;
    work()
}

/// Called when a file is being synced. The log's own files are synced under its lock, so nothing continues in the
/// meantime.
pub(crate) fn syncing(path: &Path) {
    if path.extension().is_none_or(|kind| kind != "sqlite") {
        return;
    }
    // Tasks that continue may sync files themselves, during which nothing more continues.
    if let Some(executor) = EXECUTOR.take() {
        executor.rounds(ROUNDS);
        EXECUTOR.replace(Some(executor));
    }
}
