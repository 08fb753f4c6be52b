//! The Unix socket in the data directory, through which local commands talk to the node.
//!
//! Contract: it serves the admin listener's routes to everyone who may open it: the user of the node and root. The file
//! permissions (0600, in a directory of 0700) are the authentication. Only the process that has locked the data
//! directory creates it, so a socket left by a killed process is replaced.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use axum::{Router, extract::connect_info::Connected, serve::IncomingStream};
use tokio::{net::UnixListener, sync::oneshot, task::JoinHandle};

use crate::{HostError, access::LocalUser, limits};

/// The file in the data directory.
const FILE: &str = "admin.sock";

/// A socket that is served until this is dropped.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    path: PathBuf,
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl AdminSocket {
    /// Serves the router on the socket of this data directory.
    pub(crate) fn start(dir: &Path, router: Router) -> Result<Self, HostError> {
        let path = dir.join(FILE);
        let listener = bind(dir, &path).map_err(|source| HostError::AdminSocket {
            path: path.clone(),
            source,
        })?;
        let (stop, stopped) = oneshot::channel();
        let router = router.into_make_service_with_connect_info::<LocalUser>();
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let task = tokio::spawn(async {
            let _ = server.await;
        });
        Ok(Self {
            path,
            task,
            stop: Some(stop),
        })
    }

    /// Stops accepting, and gives requests in flight a short grace period.
    pub(crate) async fn stop(mut self) {
        let _ = fs::remove_file(&self.path);
        self.stop.take();
        let _ = tokio::time::timeout(limits::ADMIN_SOCKET_GRACE, &mut self.task).await;
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if self.stop.is_some() {
            let _ = fs::remove_file(&self.path);
        }
        self.task.abort();
    }
}

fn bind(dir: &Path, path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A socket's path has at most 107 bytes, however long the directory's is.
    let dir = File::open(dir)?;
    let short = format!("/proc/self/fd/{}/{FILE}", dir.as_raw_fd());
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Connected<IncomingStream<'_, UnixListener>> for LocalUser {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let peer = stream.io().peer_cred();
        Self(peer.map_or(u32::MAX, |peer| peer.uid()))
    }
}
