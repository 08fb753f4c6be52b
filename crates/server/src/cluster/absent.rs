//! A program without the feature `cluster`.

use std::{convert::Infallible, sync::Arc};

use abide_runtime::{Node, NodeBuilder, clock::Clock};
use abide_storage::{Store, StoreOptions};

use crate::{Config, ConfigError, HostError, history::Place};

/// There is none.
#[derive(Clone, Debug)]
pub(crate) struct Membership(Infallible);

impl Membership {
    /// `None` without the setting.
    pub(crate) fn join(
        config: &Config,
        _: Option<&Place>,
        _: Option<String>,
        _: &StoreOptions,
    ) -> Result<Option<Self>, HostError> {
        if config.cluster.postgres.is_none() {
            return Ok(None);
        }
        let text = "the setting cluster.postgres needs a program that is built with the feature `cluster` of abide";
        Err(ConfigError::new(text).into())
    }

    pub(crate) fn store(&self) -> &Store {
        match self.0 {}
    }

    pub(crate) fn configure(&self, _: NodeBuilder, _: Option<Arc<dyn Clock>>) -> NodeBuilder {
        match self.0 {}
    }

    pub(crate) fn follow(&self, _: &Node) {
        match self.0 {}
    }

    pub(crate) fn is_leased(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn unserved(&self) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn unarchived(&self) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn end(&self) -> Option<String> {
        match self.0 {}
    }

    pub(crate) async fn leave(&self) {
        match self.0 {}
    }
}
