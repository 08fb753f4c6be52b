//! The workflow trait.

use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use super::{Context, Failure};

/// A workflow: a function that runs to completion, even across crashes.
///
/// A reactivated instance calls [`run`](Self::run) from its beginning; earlier requests to its [`Context`] return their
/// stored results at once. So the function must make the same requests, given the same results: it performs in steps
/// whatever has a side effect or may vary (calls, clocks, randomness, files), awaits only what its context returns, and
/// races futures in a fixed order (`tokio::select!` with `biased`).
pub trait Workflow: Send + Sync + 'static {
    /// The workflow's name, of 1 to 64 of `[a-zA-Z0-9_.-]`. It identifies instances. A function that is changed to
    /// request other steps gets a new name, and the old one stays until its instances have finished.
    const NAME: &'static str;

    /// The input of an instance. Stored as JSON.
    type Input: Serialize + DeserializeOwned + 'static;

    /// The output of an instance. Stored as JSON.
    type Output: Serialize + DeserializeOwned + 'static;

    /// Runs an instance.
    fn run(
        &self,
        context: Context,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Failure>>;
}
