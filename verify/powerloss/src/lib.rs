//! A disk that loses power, underneath a kernel file system.
//!
//! [`Disk`] is a block device's content with its volatile cache: writes since the last flush survive
//! [`Disk::after_power_loss`] or not, sector by sector, depending on a seed. [`Mounted`] puts the kernel's ext4 on it,
//! so any program can run there unmodified: FUSE serves the disk as one file, a loop device turns it into a block
//! device, and every `fsync`, `fdatasync` and `syncfs` of the program arrives as ext4's writes and flushes.
//!
//! Needs Linux, root, `/dev/fuse`, `/dev/loop-control`, `mkfs.ext4` and `mount`; [`missing`] reports what is missing.
#![forbid(unsafe_code)]

mod device;
mod disk;
mod mounted;

pub use disk::Disk;
pub use mounted::{Mounted, missing};
