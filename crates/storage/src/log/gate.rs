//! How far the log may be copied to another place: a commit that continues a replacement is of no use there before the
//! replacement is there.

use crate::ident::Lsn;
use crate::manifest::ArchiveState;
use crate::sync::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The newest version of the history that was copied since the store was opened.
    copied: Option<u64>,
    /// The end of the log when the store was opened.
    opened: Lsn,
    /// What is after these positions waits for a version.
    waiting: Vec<(Lsn, u64)>,
}

impl Gate {
    /// The gate of a store that is opened. `end` is that of its log, `version` that of its history.
    pub(crate) fn of(archive: &ArchiveState, end: Lsn, version: u64) -> Self {
        let listed = archive.replacements.iter();
        let listed = listed.filter(|of| of.run.is_some());
        Self(Mutex::new(State {
            copied: None,
            opened: end,
            waiting: listed.map(|of| (Lsn(of.after), version)).collect(),
        }))
    }

    /// Holds back what is after a position until this version of the history, or a later one, is copied.
    pub(crate) fn hold(&self, after: Lsn, version: u64) {
        let mut state = self.0.lock();
        if state.copied.is_none_or(|copied| copied < version) {
            state.waiting.push((after, version));
        }
    }

    /// A version of the history is copied.
    pub(crate) fn copied(&self, version: u64) {
        let mut state = self.0.lock();
        state.copied = state.copied.max(Some(version));
        state.waiting.retain(|(_, waits_for)| *waits_for > version);
    }

    /// Returns whether anything is held back since the store was opened. A copier may have told of it before, and publishes no
    /// version that lacks it.
    pub(crate) fn is_held_by_opening(&self) -> bool {
        let state = self.0.lock();
        state.copied.is_none() && state.waiting.iter().any(|(after, _)| *after < state.opened)
    }

    /// Returns whether anything is held back.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.0.lock().waiting.is_empty()
    }

    /// The end of what may be copied.
    pub(crate) fn end(&self, durable: Lsn) -> Lsn {
        let state = self.0.lock();
        let held = state.waiting.iter().map(|(after, _)| *after);
        held.fold(durable, Lsn::min)
    }
}

#[cfg(all(test, not(feature = "interleavings")))]
mod tests {
    use super::*;

    #[test]
    fn what_continues_a_replacement_waits_for_its_copy() {
        let gate = Gate::default();
        assert_eq!(gate.end(Lsn(90)), Lsn(90));
        gate.hold(Lsn(40), 3);
        gate.hold(Lsn(70), 5);
        assert_eq!(gate.end(Lsn(90)), Lsn(40));
        assert_eq!(gate.end(Lsn(30)), Lsn(30));
        gate.copied(3);
        assert_eq!(gate.end(Lsn(90)), Lsn(70));
        gate.copied(2);
        gate.copied(6);
        gate.hold(Lsn(80), 6);
        assert_eq!(gate.end(Lsn(90)), Lsn(90));
    }
}
