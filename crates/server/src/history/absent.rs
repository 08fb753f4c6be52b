//! A program without the feature `history`.

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use abide_storage::{RemoteRuns, Store};

use super::Report;
use crate::{ArchiveConfig, ConfigError, HostError};

/// There is none.
#[derive(Debug)]
pub(crate) struct Place(Infallible);

/// There is none.
#[derive(Clone, Debug)]
pub(crate) struct Copier(Infallible);

impl Place {
    /// `None` without the setting.
    pub(crate) fn of(archive: &ArchiveConfig) -> Result<Option<Self>, ConfigError> {
        if archive.url.is_none() {
            return Ok(None);
        }
        Err(ConfigError::new(
            "the setting archive.url needs a program that is built with the feature `history` of abide",
        ))
    }

    pub(crate) fn remote_runs(&self) -> Arc<dyn RemoteRuns> {
        match self.0 {}
    }

    pub(crate) fn check(&self, _: &Path, _: &Store) -> Result<(), HostError> {
        match self.0 {}
    }

    pub(crate) fn start(self, _: &Path, _: Store) -> Result<Copier, HostError> {
        match self.0 {}
    }
}

impl Copier {
    pub(crate) fn publish_metrics(&self) {
        match self.0 {}
    }

    pub(crate) fn stall(&self) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn differences(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn report(&self) -> Report {
        match self.0 {}
    }

    pub(crate) fn stop_proving(&self) {
        match self.0 {}
    }

    pub(crate) async fn superseded(&self) -> String {
        match self.0 {}
    }

    pub(crate) async fn finish(self, _: Duration) {
        match self.0 {}
    }
}
