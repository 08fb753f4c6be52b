//! Why a host did not start, or ended with a failure.

use std::{fmt, io, net::SocketAddr, path::PathBuf};

use thiserror::Error;

use crate::{ConfigError, ListenAddress, access::AccessError};

/// Why a host did not start, or ended with a failure. The message says what to do. `{:?}` prints the message, too,
/// since a `main` that returns the error prints that.
#[derive(Error)]
#[non_exhaustive]
pub enum HostError {
    /// The settings are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// A listener's address cannot be bound.
    #[error("cannot listen on {address} (setting {setting}): {}", advice(.source))]
    Listen {
        /// The setting that holds the address.
        setting: &'static str,
        /// The address.
        address: ListenAddress,
        /// The operating system's error.
        source: io::Error,
    },

    /// A certificate, its key or the client authorities could not be read.
    #[error("cannot use the TLS files of server.tls_… or admin.tls_…: {0}")]
    Tls(String),

    /// Other machines can reach an API that requires a token, but there is no valid token.
    #[error(
        "other machines can reach {address} (settings server.listen, server.hosts and server.trusted_proxies) and its API requires a token, but none is \
         valid: create one with `abide token create --data DIR --role operate`, or allow anyone to call it with --insecure \
         (setting server.access)"
    )]
    NoToken {
        /// The listener's address.
        address: SocketAddr,
    },

    /// Tokens and the audit log could not be opened.
    #[error(transparent)]
    Access(#[from] AccessError),

    /// The Unix socket for commands could not be created.
    #[error("cannot create the Unix socket {path} for commands: {source}")]
    AdminSocket {
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },

    /// A hook of [`on_start`](crate::HostBuilder::on_start) failed, or a singleton could not be created.
    #[error("what the program does at its start failed: {0}")]
    StartHook(abide_runtime::Error),

    /// The data directory could not be opened or closed.
    #[error(transparent)]
    Storage(#[from] abide_storage::Error),

    /// The node of objects could not be started.
    #[error(transparent)]
    Node(#[from] abide_runtime::Error),

    /// The commit log could not be written. Nothing acknowledged is lost.
    #[error(
        "the commit log could not be written; nothing acknowledged is lost: repair the disk, then restart to recover"
    )]
    LogFailed,

    /// The data directory is a copy for inspection.
    #[error(
        "{} was restored for inspection: served, its objects would do what the original's do. If the original is gone, restore it \
         with --take-over",
        .0.display()
    )]
    ForInspection(PathBuf),

    /// The history at `archive.url` belongs to another node.
    #[error("{0}")]
    History(String),

    /// The node could not join its cluster, or is no longer a part of it.
    #[error("{0}")]
    Cluster(String),

    /// The process cannot receive signals.
    #[error("cannot listen for SIGTERM and SIGINT: {0}")]
    Signals(#[source] io::Error),

    /// A part of the host panicked; the log has the details.
    #[error("a part of the host panicked; see the log for details, and restart to recover")]
    Panicked,
}

/// A `main` that returns an error prints its `Debug` form.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        })+
    };
}

debug_as_display!(HostError, ConfigError, AccessError);

fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another process uses this address; stop it, or choose another address (port 0 takes any free port)"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; choose a port from 1024 up, or grant the process the permission".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have this address".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Sources};

    /// `main() -> Result<(), HostError>` prints `Error: {:?}`.
    #[test]
    fn a_main_that_returns_an_error_prints_its_sentence() {
        let sources = Sources {
            file: Some("/nowhere/abide.toml".into()),
            ..Sources::default()
        };
        let refused = Config::load(&sources).unwrap_err();
        let sentence = refused.to_string();
        assert_eq!(format!("{refused:?}"), sentence);
        assert_eq!(format!("{:?}", HostError::from(refused)), sentence);
        let taken = HostError::Signals(io::ErrorKind::PermissionDenied.into());
        assert_eq!(format!("{taken:?}"), taken.to_string());
    }
}
