//! The seam to who begins payments.

use std::{fmt, sync::Arc};

use abide::{Env, Error, LocalFuture, Result};

use crate::states::NewIntent;

/// Begins payments, and has their results reported to the subscription.
pub trait Payments: Send + Sync + 'static {
    /// Begins a payment, unless one with this id, which is that of the payment intent, has begun already. It is called at
    /// least once.
    fn begin(&self, env: &Env, id: String, intent: NewIntent) -> LocalFuture<Result<(), Error>>;

    /// Whether a payment has begun: the answer to the call that began it may be lost.
    fn has_begun(&self, env: &Env, id: String) -> LocalFuture<Result<bool, Error>>;
}

/// Who begins the payments of a node, to be shared with [`HostBuilder::with`](abide::server::HostBuilder::with) or
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
