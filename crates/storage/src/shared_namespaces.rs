//! The namespaces of stores that share objects: an interface to where they are.

use std::io;

/// The namespaces of stores that share objects, where all of them can find and add one.
pub trait SharedNamespaces: Send + Sync {
    /// The unique keys of all namespaces in the order of their numbers, this one among them. If it is new, it comes after all others, and is
    /// durable when this returns. Keys are only ever added.
    ///
    /// # Errors
    /// It is not certain that the namespace exists. It can be asked for again.
    fn with(&self, unique_key: &str) -> io::Result<Vec<String>>;
}
