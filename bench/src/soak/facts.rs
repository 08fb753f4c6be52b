//! What the clients and the receiver have seen, and what of it is wrong.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::figures::Latencies;

/// Shared by all parts of a soak.
#[derive(Default)]
pub(crate) struct Facts {
    stop: AtomicBool,
    seen: Mutex<Seen>,
}

/// What there is to tell.
#[derive(Default)]
pub(crate) struct Seen {
    /// Promises that were broken.
    pub(crate) broken: Vec<String>,
    /// The newest entry of each ledger that was acknowledged.
    pub(crate) written: HashMap<String, u64>,
    /// The newest entry of each ledger that the receiver has taken, after all before it.
    pub(crate) delivered: HashMap<String, u64>,
    /// Since the last row.
    pub(crate) window: Window,
    pub(crate) total: Total,
}

/// What has happened since the last row.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) writes: Latencies,
    pub(crate) frames: Latencies,
    /// How late alarms were.
    pub(crate) alarms: Latencies,
    pub(crate) deliveries: u64,
}

/// What has happened in all.
#[derive(Clone, Copy, Default)]
pub(crate) struct Total {
    pub(crate) writes: u64,
    pub(crate) frames: u64,
    pub(crate) alarms: u64,
    pub(crate) deliveries: u64,
    /// Calls whose outcome the client never learnt, and which it repeated.
    pub(crate) repeated: u64,
}

impl Facts {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn broken(&self, promise: String) {
        self.seen().broken.push(promise);
    }

    /// Clients finish what they have begun, and begin nothing more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self, ledger: &str, entry: u64, took: Duration) {
        let mut seen = self.seen();
        seen.written.insert(ledger.to_owned(), entry);
        seen.window.writes.push(took);
        seen.total.writes += 1;
    }

    pub(crate) fn fired(&self, late: Duration) {
        let mut seen = self.seen();
        seen.window.alarms.push(late);
        seen.total.alarms += 1;
    }

    pub(crate) fn answered(&self, took: Duration) {
        let mut seen = self.seen();
        seen.window.frames.push(took);
        seen.total.frames += 1;
    }

    /// An announcement has come: the next one of its ledger, or one that came before.
    pub(crate) fn delivered(&self, ledger: &str, entry: u64) {
        let mut seen = self.seen();
        let last = seen.delivered.entry(ledger.to_owned()).or_default();
        let before = *last;
        *last = before.max(entry);
        seen.window.deliveries += 1;
        seen.total.deliveries += 1;
        if entry > before + 1 {
            seen.broken.push(format!(
                "entry {entry} of {ledger} was announced after entry {before}"
            ));
        }
    }

    /// A ledger whose acknowledged entries have not all been announced.
    pub(crate) fn unannounced(&self) -> Option<String> {
        let seen = self.seen();
        seen.written.iter().find_map(|(ledger, written)| {
            let delivered = seen.delivered.get(ledger).copied().unwrap_or(0);
            (delivered < *written).then(|| {
                format!("{ledger} has acknowledged entry {written}; announced was {delivered}")
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Facts;

    #[test]
    fn an_announcement_that_is_skipped_or_never_comes_is_told() {
        let facts = Facts::default();
        facts.written("a", 2, Duration::ZERO);
        facts.delivered("a", 1);
        facts.delivered("a", 1);
        assert!(facts.unannounced().is_some() && facts.seen().broken.is_empty());
        facts.delivered("a", 2);
        assert!(facts.unannounced().is_none() && facts.seen().broken.is_empty());
        facts.delivered("a", 4);
        assert_eq!(facts.seen().broken.len(), 1);
    }
}
