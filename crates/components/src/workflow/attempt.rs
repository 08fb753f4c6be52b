//! An attempt of a step, as its function sees it.

use std::{cell::Cell, rc::Rc, sync::Arc};

use abide::{Call, Env, Request, Response, clock::Clock};
use tokio::sync::Notify;

/// An attempt of a step. When its function is called, the attempt is on disk.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub(super) env: Env,
    pub(super) number: u32,
    pub(super) key: String,
    pub(super) cancel: Rc<Cancel>,
}

impl Attempt {
    /// The environment, for calls of other objects.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The node's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.env.clock()
    }

    /// Sends an HTTP request through the node's client, with its address policy.
    pub fn fetch(&self, request: Request) -> Call<Response> {
        self.env.fetch(request)
    }

    /// The number of this attempt, from 1. An attempt whose process crashed counts.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The same for every attempt of this step of this instance, and for no other: 35 characters of `[a-z0-9_]`. A
    /// restarted step gets a new one, unless it is unknown whether it had its effect.
    pub fn idempotency_key(&self) -> &str {
        &self.key
    }

    /// True if the instance is being canceled: the step may return early.
    pub fn is_canceled(&self) -> bool {
        self.cancel.requested.get()
    }

    /// Completes when the instance is being canceled.
    pub async fn canceled(&self) {
        let told = self.cancel.told.notified();
        if !self.is_canceled() {
            told.await;
        }
    }
}

/// Whether the instance is being canceled.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    requested: Cell<bool>,
    told: Notify,
}

impl Cancel {
    pub(super) fn set(&self, requested: bool) {
        self.requested.set(requested);
        if requested {
            self.told.notify_waiters();
        }
    }
}
