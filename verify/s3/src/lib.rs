//! A bucket in memory that speaks as much of the S3 protocol as clients of whole objects need: put with `If-None-Match: *`, get
//! with a range, head, delete, and list in pages. It has faults on demand, and judges what its clients do: one lock decides the
//! order of requests, every change is shown to an inspector, and nothing is forgotten that was overwritten.
//!
//! [`Bucket::answer`] answers a request in this process. [`serve`] does so on a port of this machine.

#![forbid(unsafe_code)]

mod bucket;
mod faults;
mod front;
mod listing;
mod random;

pub use bucket::{Bucket, Counts, Objects};
pub use faults::{Cut, Faults};
pub use front::{Front, serve};
pub use random::Random;
