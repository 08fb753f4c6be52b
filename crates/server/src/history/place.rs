//! Where copies are: the URL of a store, and how it is reached.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use abide_history::{
    Access, Connector, CopyKey, Error, Location, Options, Probe, Store as Copies, Uploader,
};
use abide_remote_runs::StoredRuns;
use abide_storage::{RemoteRuns, Store};
use tokio::runtime::{Builder, Handle};

use super::{Copier, proof::Prover, source::HistorySource};
use crate::{ArchiveConfig, ConfigError, HostError, limits, tls_client_config};

/// Where copies of a node's history are: the settings `archive.url`, `archive.options` and `archive.key_file`.
#[derive(Clone, Debug)]
pub struct HistoryPlace {
    copies: Copies,
    options: Options,
    /// The file with the key, if every user of the machine can read it.
    exposed: Option<PathBuf>,
    /// How often a slice of the copy is proven.
    prove: Option<Duration>,
}

impl HistoryPlace {
    /// The place of the settings; `None` without `archive.url`. Sends no request.
    ///
    /// # Errors
    /// If the URL or an option is wrong, or the file with the key has none.
    pub fn of(archive: &ArchiveConfig) -> Result<Option<Self>, ConfigError> {
        let Some(url) = &archive.url else {
            return Ok(None);
        };
        if archive.sync && archive.ship_interval.is_none() {
            return Err(ConfigError::new(
                "archive.sync waits until the log is shipped, and archive.ship_interval is off: set it, or switch archive.sync off",
            ));
        }
        let refused = |error: Error| ConfigError::new(format!("the setting archive.url: {error}"));
        let location: Location = url.parse().map_err(refused)?;
        let options = archive.options.0.iter();
        let access = options.fold(Access::from_env(), |access, (name, value)| {
            access.option(name, value)
        });
        let tls = tls_client_config(&[])
            .map_err(|error| ConfigError::new(format!("the setting archive.url: {error}")))?;
        let mut copies = Copies::open(&location, &access, Connector::new(tls)).map_err(refused)?;
        let mut exposed = None;
        if let Some(path) = &archive.key_file {
            let key = CopyKey::read(path).map_err(|error| ConfigError::new(error.to_string()))?;
            exposed = key.is_exposed().then(|| path.clone());
            copies = copies.with_key(key);
        }
        let options = Options {
            interval: archive.upload_interval,
            ship: archive.ship_interval,
            eager: archive.sync,
            keep: archive.keep_uploads,
            take_over: archive.take_over,
            ..Options::default()
        };
        Ok(Some(Self {
            copies,
            options,
            exposed,
            prove: archive.prove,
        }))
    }

    /// What is wrong with the place and prevents nothing: what an operator should mend.
    pub fn warning(&self) -> Option<String> {
        let path = self.exposed.as_ref()?.display();
        Some(format!(
            "every user of this machine can read the key file {path}, and so the copies: `chmod 600 {path}`"
        ))
    }

    /// The store with the copies.
    pub fn copies(&self) -> &Copies {
        &self.copies
    }

    /// The runs that a lazy restore has left in the store. Sends no request yet.
    pub fn remote_runs(&self) -> Arc<dyn RemoteRuns> {
        Arc::new(StoredRuns::new(&self.copies))
    }

    /// Refuses to start a node whose history is another's. Blocks its thread, which must not be one of the async runtime.
    pub(crate) fn check(&self, dir: &Path, store: &Store) -> Result<(), HostError> {
        let archive = HistorySource::new(store);
        let checked = Uploader::check(&self.copies, dir, &archive, &self.options);
        match Handle::current().block_on(checked) {
            Ok(probe) => {
                self.warn(probe);
                Ok(())
            }
            Err(error) if error.is_refusal() => Err(HostError::History(error.to_string())),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the store of archive.url cannot be used now: starting without it, and trying again until it can"
                );
                Ok(())
            }
        }
    }

    fn warn(&self, probe: Probe) {
        let url = self.copies.location();
        if !probe.refuses_overwrites {
            tracing::warn!(
                %url,
                "the store of archive.url replaces objects that exist: two nodes that use it would not notice each other, so \
                 make sure that each has its own URL"
            );
        }
        if !probe.deletes {
            tracing::warn!(
                %url,
                "nothing may be deleted in the store of archive.url: it keeps every file that was ever copied"
            );
        }
    }

    /// Begins to copy.
    pub(crate) fn start(self, dir: &Path, store: Store) -> Result<Copier, HostError> {
        if let Some(warning) = self.warning() {
            tracing::warn!("{warning}");
        }
        let Self {
            copies,
            options,
            prove,
            ..
        } = self;
        let archive = Arc::new(HistorySource::new(&store));
        let is_awaited = options.eager;
        let failed = |error: &dyn std::error::Error| HostError::History(error.to_string());
        // With its own threads: those of the program may all wait for what is shipped here.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(limits::COPY_THREADS)
            .thread_name("abide-history")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let started = {
            let _inside = runtime.enter();
            Uploader::start(copies.clone(), dir, archive, options)
        };
        let uploader = started.map_err(|error| failed(&error))?;
        let prover = prove.map(|interval| {
            let (status, threads) = (uploader.watch(), runtime.handle());
            Prover::start(&copies, &store, dir, interval, status, threads)
        });
        let copier = Copier::new(uploader, prover, runtime, copies, store, is_awaited);
        Ok(copier)
    }
}
