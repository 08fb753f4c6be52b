//! The choice of the next result.

use super::history::History;

/// The source of a step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ready {
    /// The awaited event has arrived, with this number.
    Arrived(usize, i64),
    /// It is stored.
    Stored(usize),
    /// Its time has come.
    Due(usize),
}

/// The earliest of all ready results. During a cancellation, only shielded steps finish; before it, also steps that
/// have finished already.
pub(super) fn next(history: &History, canceling: bool, now: i64) -> Option<Ready> {
    let canceling = canceling || history.canceled;
    let shielded = |at: usize| history.ops[at].is_shielded();
    let stored = history
        .stored
        .iter()
        .find(|(_, at)| !history.canceled || shielded(*at))
        .map(|(time, at)| (*time, Ready::Stored(*at)));
    let due = history
        .timers
        .iter()
        .take_while(|(due, _)| *due <= now)
        .find(|(_, at)| !canceling || shielded(*at))
        .map(|(due, at)| (*due, Ready::Due(*at)));
    let arrived = history.inbox.oldest().filter_map(|(name, event)| {
        let waiting = history.waiting.get(name)?;
        let first = waiting.iter().find(|at| !canceling || shielded(**at))?;
        Some((event.at, event.id, *first))
    });
    let arrived = arrived
        .min()
        .map(|(time, event, at)| (time, Ready::Arrived(at, event)));
    let ready = stored.into_iter().chain(due).chain(arrived).min();
    ready.map(|(_, ready)| ready)
}
