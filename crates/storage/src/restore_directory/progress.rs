//! How far a restore is.

use crate::sync::Mutex;

/// How far [`restore_directory`](crate::restore_directory) is. It checks the whole archive first, and then restores the
/// objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreProgress {
    /// Bytes of the archive that were checked.
    pub checked_bytes: u64,
    /// Bytes of the archive.
    pub total_bytes: u64,
    /// Objects that were restored, or found not to exist.
    pub objects: u64,
    /// Objects in the archive; 0 while it is being checked.
    pub total_objects: u64,
}

/// Tells how far the restore is.
pub(super) struct Progress<'a> {
    tell: &'a (dyn Fn(RestoreProgress) + Sync),
    now: Mutex<RestoreProgress>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(tell: &'a (dyn Fn(RestoreProgress) + Sync), total_bytes: u64) -> Self {
        let now = RestoreProgress {
            total_bytes,
            ..RestoreProgress::default()
        };
        tell(now);
        Self {
            tell,
            now: Mutex::new(now),
        }
    }

    pub(super) fn checked(&self, bytes: u64) {
        self.change(|now| now.checked_bytes += bytes);
    }

    pub(super) fn has_objects(&self, total: u64) {
        self.change(|now| now.total_objects = total);
    }

    pub(super) fn object_is_done(&self) {
        self.change(|now| now.objects += 1);
    }

    /// In order, so that no number falls.
    fn change(&self, change: impl FnOnce(&mut RestoreProgress)) {
        let mut now = self.now.lock();
        change(&mut now);
        (self.tell)(*now);
    }
}
