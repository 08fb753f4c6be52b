//! Copies of a node's history in an object store, and the way back.
//!
//! A node's history is a set of *runs*, which are files that never change, and some bytes that say what they contain. This crate
//! copies both into a bucket or a directory, and downloads them again. It sees files, numbers and opaque bytes.
//!
//! - [`Location`], [`Access`], [`Store`]: where the copies are, and how to reach them.
//! - [`Uploader`]: a task that copies what a [`Source`] has, until it is stopped; [`Status`] says how far it is.
//! - [`Download`]: all runs of a manifest into a directory; [`verify`] and [`list`].
//! - [`Probe`]: whether a store does what ownership relies on.
//!
//! # What is in the store
//!
//! ```text
//! manifests/{number}                                   numbered from 1; the highest number is in force
//! runs/{writer}/{base}-{session}/{run}.run             a run of at most one part
//! runs/{writer}/{base}-{session}/{run}.run.{part}      a part of a longer one
//! ```
//!
//! Every object is created once and never replaced. A *writer* is a data directory, a *session* one start of a process in it, and
//! *base* the number of the manifest that was in force when the session looked first. A manifest lists the runs of one moment.
//!
//! # What holds, and why
//!
//! 1. **One owner.** The next manifest is created under the next number, and a store refuses to create what exists. Of two owners
//!    that create the same number one is refused; it sees another session's manifest there, and stops for good. A number may be
//!    free again because its manifest was old and deleted; but the newest never is, so a manifest counts only if no higher one is
//!    there after it was created. Hence a session that has manifest N knows that no other session whose base is below N will
//!    ever have one again.
//! 2. **A manifest lists what is there.** Manifest N + 1 lists only keys that manifest N lists, and keys that its own session has
//!    written since and that the store has confirmed. No other session writes under these keys.
//! 3. **Nothing listed is deleted.** See `garbage`: a key is deleted only if no later manifest can list it, by 1 and 2.
//!
//! All three hold while requests are late, lost, or carried out although their response was lost. They need a store that refuses
//! to create what exists: [`Probe`] tells. In a store without, two owners may replace each other's manifests, but not their runs.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod access;
mod backoff;
mod claim;
mod connector;
mod directory;
mod download;
mod error;
mod garbage;
mod identity;
mod key;
mod listing;
mod location;
mod manifest;
mod options;
mod probe;
mod publisher;
mod source;
mod status;
mod store;
mod traffic;
mod transfer;
mod uploader;

pub use access::Access;
pub use connector::Connector;
pub use directory::continue_after;
pub use download::{Download, verify};
pub use error::Error;
pub use identity::{Session, Writer};
pub use listing::{Listed, list};
pub use location::Location;
pub use manifest::{Manifest, StoredRun};
pub use options::Options;
pub use probe::Probe;
pub use source::{Run, Snapshot, Source};
pub use status::{Failing, Published, Status, StatusWatch};
pub use store::Store;
pub use traffic::{Requests, Traffic};
pub use uploader::Uploader;
