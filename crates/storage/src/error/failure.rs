//! Classifies disk errors, independent of the operation.

use rustix::io::Errno;
use std::io;

/// The class of a disk error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The disk or a quota is full. Nothing was changed; the error goes away when space is freed.
    Full,
    /// The process or the machine is out of descriptors or memory. Nothing was changed; a retry may succeed.
    Passing,
    /// Anything else: the device, the file system, permissions, a name that is missing or taken. A retry fails again
    /// unless an operator fixes the cause.
    Lasting,
}

impl Failure {
    /// The class of an error of any operation except a sync.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::OutOfMemory => Self::Passing,
            _ if is_without_descriptors(error) => Self::Passing,
            _ => Self::Lasting,
        }
    }

    /// The class of a sync error. Lack of space or memory is permanent here: some of the data may be lost, and a second
    /// sync would report success. A missing descriptor is not: the failure came before anything was synced.
    pub(crate) fn of_sync(error: &io::Error) -> Self {
        if is_without_descriptors(error) {
            Self::Passing
        } else {
            Self::Lasting
        }
    }
}

pub(crate) fn is_without_descriptors(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE]
        .iter()
        .any(|of| errno == Some(of.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_what_ends_them() {
        let of = |errno: Errno| {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            (Failure::of(&error), Failure::of_sync(&error))
        };
        assert_eq!(of(Errno::NOSPC), (Failure::Full, Failure::Lasting));
        assert_eq!(of(Errno::DQUOT), (Failure::Full, Failure::Lasting));
        assert_eq!(of(Errno::NOMEM), (Failure::Passing, Failure::Lasting));
        assert_eq!(of(Errno::MFILE), (Failure::Passing, Failure::Passing));
        assert_eq!(of(Errno::NFILE), (Failure::Passing, Failure::Passing));
        for errno in [Errno::IO, Errno::NOENT, Errno::ISDIR, Errno::ACCESS] {
            assert_eq!(of(errno), (Failure::Lasting, Failure::Lasting));
        }
    }
}
