//! What a program says that is to be done.

use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use super::{Context, Failure};

/// A workflow: a function that is run to its end, whatever happens to the process meanwhile.
///
/// An instance that comes to life again calls [`run`](Self::run) from its beginning; what it asked its [`Context`] for before
/// has its result at once. So the function must ask for the same as before, given the same results: it does everything that
/// has an effect or can come out otherwise (calls, clocks, chance, files) in steps, waits for nothing but what its context
/// gives, and races futures in a fixed order (`tokio::select!` with `biased`).
pub trait Workflow: Send + Sync + 'static {
    /// The workflow's name, of 1 to 64 of `[a-zA-Z0-9_.-]`. Instances are found by it. A function that has been changed so
    /// that it asks for other steps gets a new name, and the old one stays until its instances have ended.
    const NAME: &'static str;

    /// What an instance is started with. Kept as JSON.
    type Input: Serialize + DeserializeOwned + 'static;

    /// What it ends with. Kept as JSON.
    type Output: Serialize + DeserializeOwned + 'static;

    /// Runs an instance.
    fn run(
        &self,
        context: Context,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Failure>>;
}
