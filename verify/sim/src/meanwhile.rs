//! A checkpoint has a thread of its own in a real node: while it waits for the disk, objects go on. Here everything has one
//! thread, so the node's futures run a little whenever a checkpoint syncs a file.

use std::{cell::RefCell, path::Path, rc::Rc};

use crate::executor::Executor;

/// How often everything that is ready runs during one sync.
const ROUNDS: u32 = 3;

thread_local! {
    static EXECUTOR: RefCell<Option<Rc<Executor>>> = const { RefCell::new(None) };
}

/// Does something that waits for the disk, in which the node goes on.
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

/// A file is being synced. The log's own files are synced under its lock, so nothing goes on meanwhile.
pub(crate) fn syncing(path: &Path) {
    if path.extension().is_none_or(|kind| kind != "sqlite") {
        return;
    }
    // What goes on may sync files itself, in which nothing more goes on.
    if let Some(executor) = EXECUTOR.take() {
        executor.rounds(ROUNDS);
        EXECUTOR.replace(Some(executor));
    }
}
