//! Claims: an object's file is written by one thread at a time.

use crate::ident::ObjectKey;
use crate::limits::HYDRATIONS_AT_ONCE;
use crate::sync::{Condvar, Mutex};
use std::collections::BTreeSet;

/// The objects whose files are being written.
#[derive(Default)]
pub(crate) struct Claims {
    claimed: Mutex<Claimed>,
    released: Condvar,
}

#[derive(Default)]
struct Claimed {
    keys: BTreeSet<ObjectKey>,
    /// How many of them are claimed by those who wait for the file: each may take the memory of an image.
    at_once: usize,
}

/// A claimed object.
pub(crate) struct Claim<'a> {
    of: &'a Claims,
    key: ObjectKey,
    counts: bool,
}

impl Claims {
    /// Claims an object, once no one else has it and few others are written.
    pub(crate) fn claim(&self, key: ObjectKey) -> Claim<'_> {
        let mut claimed = self.claimed.lock();
        while claimed.keys.contains(&key) || claimed.at_once >= HYDRATIONS_AT_ONCE {
            claimed = self.released.wait(claimed);
        }
        claimed.keys.insert(key);
        claimed.at_once += 1;
        let counts = true;
        Claim {
            of: self,
            key,
            counts,
        }
    }

    /// Returns whether someone has claimed an object.
    pub(crate) fn has(&self, key: ObjectKey) -> bool {
        self.claimed.lock().keys.contains(&key)
    }

    /// Claims an object, unless someone else has it.
    pub(crate) fn try_claim(&self, key: ObjectKey) -> Option<Claim<'_>> {
        if !self.claimed.lock().keys.insert(key) {
            return None;
        }
        let counts = false;
        Some(Claim {
            of: self,
            key,
            counts,
        })
    }

    /// Returns once none of these objects is claimed.
    pub(crate) fn wait_for(&self, is_one: impl Fn(&ObjectKey) -> bool) {
        let mut claimed = self.claimed.lock();
        while claimed.keys.iter().any(&is_one) {
            claimed = self.released.wait(claimed);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.of.claimed.lock();
        claimed.keys.remove(&self.key);
        claimed.at_once -= usize::from(self.counts);
        drop(claimed);
        self.of.released.notify_all();
    }
}
