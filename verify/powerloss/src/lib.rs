//! A disk that loses power, under a file system of the kernel.
//!
//! [`Disk`] is a block device's content with its volatile cache: what was written since the last flush survives
//! [`Disk::after_power_loss`] or does not, sector by sector, as a seed says. [`Mounted`] puts an ext4 of the kernel on it, so that
//! any program can run there unchanged: FUSE serves the disk as one file, a loop device makes a block device of it, and
//! every `fsync`, `fdatasync` and `syncfs` of the program arrives as ext4's writes and flushes.
//!
//! Needs Linux, root, `/dev/fuse`, `/dev/loop-control`, `mkfs.ext4` and `mount`; [`missing`] says what is not there.
#![forbid(unsafe_code)]

mod device;
mod disk;
mod mounted;

pub use disk::Disk;
pub use mounted::{Mounted, missing};
