//! Copies of a node's history in an object store, and the way back.
//!
//! A node's history is a set of *runs*, which are files that never change, and some bytes that say what they contain. This crate
//! copies both into a bucket or a directory, with the log that continues them, and downloads them again. It sees files, numbers and
//! opaque bytes.
//!
//! - [`Location`], [`Access`], [`Store`]: where the copies are, and how to reach them.
//! - [`CopyKey`]: encrypts all that is in the store.
//! - [`Uploader`]: a task that copies what a [`Source`] has, until it is stopped; [`Status`] says how far it is.
//! - [`Download`]: all runs of a manifest and its tail into directories; [`verify`] and [`list`].
//! - [`mark_store`], [`copy_run`]: a store for the runs of a cluster; copies a run that many nodes share, and that a database lists instead of a manifest.
//! - [`Ranges`]: reads some of the bytes of a run, where it is.
//! - [`Seal`]: ends the tail of a lost node, so that another continues its history.
//! - [`Probe`]: whether a store does what ownership relies on.
//! - [`Machine`]: the threads, the time and the random numbers that all of them use.
//!
//! # What is in the store
//!
//! ```text
//! manifests/{number}                                   numbered from 1; the highest number is in force
//! tail/{number}                                        pieces of the log that continue the runs
//! runs/{writer}/{base}-{session}/{run}.run             a run of at most one part
//! runs/{writer}/{base}-{session}/{run}.run.{part}      a part of a longer one
//! ```
//!
//! Every object is created once and never replaced. A *writer* is a data directory, a *session* one start of a process in it, and
//! *base* the number of the manifest after which the session began to write. A manifest lists the runs of one moment, and names
//! the first piece of the tail that continues them.
//!
//! With a [`CopyKey`], each of these objects is encrypted as a whole, and its name is not: see `cipher`. Only `store` knows of it.
//! Without the key, no object can be read or made, and one that was changed, cut off, exchanged or moved is noticed. A client that may
//! write to the store can still delete objects, and put back ones that were there under the same name.
//!
//! # What holds, and why
//!
//! 1. **One owner.** A session begins by creating the next piece of the tail, and a store refuses to create what exists. The piece that
//!    an earlier session would create next has the same number, or a lower one, so it has none any more: it sees another's there,
//!    and stops for good. The newest piece is never deleted, nor are those with which sessions begin.
//! 2. **A manifest counts** if, after it was created, there is none with a higher number and no piece of a later session. Its
//!    session reports nothing as copied before it has looked. One that does not count may be there, and the owner continues after it.
//! 3. **What is reported is found.** A restore first seals the tail: it begins a session itself. A manifest that counts was created
//!    before, and so was each piece; the restore looks afterwards.
//! 4. **A manifest lists what is there.** Manifest N + 1 lists only keys that manifest N lists, and keys with the base N or later that
//!    its own session has written since and that the store has confirmed. No other session writes under these keys.
//! 5. **Nothing listed is deleted.** See `garbage` and `tail`: a key is deleted only if no later manifest can list it.
//!
//! All of it holds while requests are late, lost, or carried out although their response was lost. It needs a store that refuses
//! to create what exists: [`Probe`] tells. In a store without, two owners may replace each other's manifests, but not their runs.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod access;
mod backoff;
mod catalogue;
mod cipher;
mod claim;
mod connector;
mod copy_key;
mod directory;
mod download;
mod error;
mod fetched;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod garbage;
mod identity;
mod key;
mod listing;
mod location;
mod machine;
mod manifest;
mod options;
mod piece;
mod probe;
mod publisher;
mod ranges;
mod replace;
mod seal;
mod sequence;
mod shared_run;
mod shipper;
mod source;
mod status;
mod store;
mod tail;
mod tail_reader;
mod traffic;
mod transfer;
mod uploader;

pub use access::Access;
pub use catalogue::{newest_catalogue, put_catalogue};
pub use connector::Connector;
pub use copy_key::CopyKey;
pub use download::{Download, Verified, verify, verify_run};
pub use error::Error;
pub use identity::{Session, Writer};
pub use listing::{Listed, list};
pub use location::Location;
pub use machine::{Machine, RealMachine, Sleep};
pub use manifest::{Manifest, StoredRun};
pub use options::Options;
pub use probe::Probe;
pub use ranges::Ranges;
pub use seal::Seal;
pub use shared_run::{
    copy_run, discard_run, is_marked, mark_store, missing_runs, remove_runs, take_store,
};
pub use source::{Part, Run, Snapshot, Source};
pub use status::{Copied, Failing, Published, Status, StatusWatch};
pub use store::Store;
pub use tail_reader::TailCopy;
pub use traffic::{Requests, Traffic};
pub use uploader::Uploader;
