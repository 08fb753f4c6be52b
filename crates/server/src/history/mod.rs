//! The copy of the archive in an object store: the setting `archive.url`.
//!
//! Contract: a node whose history in the store belongs to another directory does not start, and one whose history is taken over
//! stops. A store that cannot be reached delays copies and nothing else. What is copied is proven in the background.

#[cfg(not(feature = "history"))]
mod absent;
#[cfg(feature = "history")]
mod content;
#[cfg(feature = "history")]
mod copier;
#[cfg(feature = "history")]
mod metric;
#[cfg(feature = "history")]
mod place;
#[cfg(feature = "history")]
mod proof;
#[cfg(feature = "history")]
mod remote;
mod report;
#[cfg(feature = "history")]
mod source;

#[cfg(not(feature = "history"))]
pub(crate) use absent::{Copier, Place};
#[cfg(feature = "history")]
pub use content::HistoryContent;
#[cfg(feature = "history")]
pub(crate) use copier::Copier;
#[cfg(feature = "history")]
pub use place::HistoryPlace;
#[cfg(feature = "history")]
pub(crate) use place::HistoryPlace as Place;
pub(crate) use report::Report;
#[cfg(feature = "history")]
pub use source::HistorySource;
