//! All sockets of one host, so that a clean shutdown can close them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use abide_runtime::socket::{CloseFrame, EndpointHandle, code};
use tokio::{runtime::Handle, sync::Notify, task::AbortHandle};

use super::KeepAlive;

/// The sockets of one host. Clones share the same hub.
#[derive(Clone, Debug)]
pub(crate) struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keep_alive: KeepAlive,
    runtime: Handle,
    sockets: Mutex<Sockets>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Sockets {
    next: u64,
    closing: bool,
    /// The host is gone.
    ended: bool,
    open: HashMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    endpoint: EndpointHandle,
    task: Option<AbortHandle>,
}

impl Hub {
    /// A hub whose connections run on the current async runtime.
    pub(crate) fn new(keep_alive: KeepAlive) -> Self {
        Self(Arc::new(Inner {
            keep_alive,
            runtime: Handle::current(),
            sockets: Mutex::default(),
            emptied: Notify::new(),
        }))
    }

    pub(super) fn keep_alive(&self) -> KeepAlive {
        self.0.keep_alive
    }

    /// Runs a socket's connection, tracked by the hub until it ends.
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        endpoint: EndpointHandle,
        run: impl FnOnce(Member) -> F,
    ) {
        let number = {
            let mut sockets = self.lock();
            sockets.next += 1;
            let number = sockets.next;
            if sockets.closing {
                endpoint.close(going_away());
            }
            let open = Open {
                endpoint,
                task: None,
            };
            sockets.open.insert(number, open);
            number
        };
        let member = Member {
            hub: self.clone(),
            number,
        };
        let task = self.0.runtime.spawn(run(member)).abort_handle();
        let mut sockets = self.lock();
        if sockets.ended {
            task.abort();
        }
        // It may already have ended.
        if let Some(open) = sockets.open.get_mut(&number) {
            open.task = Some(task);
        }
    }

    /// Ends every connection immediately, including future ones.
    fn end(&self) {
        let mut sockets = self.lock();
        sockets.ended = true;
        for task in sockets.open.values().filter_map(|open| open.task.as_ref()) {
            task.abort();
        }
    }

    /// Closes every socket, including future ones, with 1001; after the grace period the remaining connections are
    /// ended.
    pub(crate) async fn close(&self, grace: Duration) {
        {
            let mut sockets = self.lock();
            sockets.closing = true;
            for open in sockets.open.values() {
                open.endpoint.close(going_away());
            }
        }
        let all_gone = async {
            while !self.lock().open.is_empty() {
                self.0.emptied.notified().await;
            }
        };
        if tokio::time::timeout(grace, all_gone).await.is_err() {
            let left: Vec<_> = self
                .lock()
                .open
                .values()
                .filter_map(|open| open.task.clone())
                .collect();
            tracing::warn!(
                sockets = left.len(),
                "ending WebSockets whose peers did not confirm the close within the grace period"
            );
            left.iter().for_each(AbortHandle::abort);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sockets> {
        self.0
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hub's owner, held by the host: when it is dropped, the connections end. Otherwise they would keep the node and
/// its directory open.
#[derive(Debug)]
pub(crate) struct OwnedHub(Hub);

impl OwnedHub {
    pub(crate) fn new(keep_alive: KeepAlive) -> Self {
        Self(Hub::new(keep_alive))
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0
    }
}

impl Drop for OwnedHub {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn going_away() -> CloseFrame {
    CloseFrame::of(code::GOING_AWAY, "the server is stopping")
}

/// A connection tracked by the hub.
pub(super) struct Member {
    hub: Hub,
    number: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut sockets = self.hub.lock();
        sockets.open.remove(&self.number);
        if sockets.open.is_empty() {
            self.hub.0.emptied.notify_one();
        }
    }
}
