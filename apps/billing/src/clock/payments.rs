//! The interface for starting payments.

use std::{fmt, sync::Arc};

use abide::{Env, Error, LocalFuture, Result};

use crate::states::NewIntent;

/// Starts payments, and has their results reported to the subscription.
pub trait Payments: Send + Sync + 'static {
    /// Starts a payment, unless one with this id, which is that of the payment intent, has already been started. Called
    /// at least once.
    fn begin(&self, env: &Env, id: String, intent: NewIntent) -> LocalFuture<Result<(), Error>>;

    /// Returns whether a payment was started: the answer to the starting call may be lost.
    fn has_begun(&self, env: &Env, id: String) -> LocalFuture<Result<bool, Error>>;
}

/// The payments of a node, to be shared with [`HostBuilder::with`](abide::server::HostBuilder::with) or
/// [`NodeBuilder::with`](abide::NodeBuilder::with).
#[derive(Clone)]
pub struct AnyPayments(Arc<dyn Payments>);

impl AnyPayments {
    /// These.
    pub fn new(payments: impl Payments) -> Self {
        Self(Arc::new(payments))
    }
}

impl std::ops::Deref for AnyPayments {
    type Target = dyn Payments;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for AnyPayments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyPayments")
    }
}
