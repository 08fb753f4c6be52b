//! Proving that a copy of the archive has what the objects have.
//!
//! A [`Fingerprint`] is taken of an object as it is: its file and its overlay, not its archive. A [`CopiedArchive`] reads the object's
//! state from the runs of a copy alone, and compares it, page by page. Every byte of a run that is used is covered by a checksum of
//! the run, so damage is an error that names the file, and what remains are states that are whole and wrong.

mod copied;
mod fingerprint;

pub use copied::{Comparison, CopiedArchive};
pub use fingerprint::Fingerprint;
