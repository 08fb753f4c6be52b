//! Attempts that are on their way, and how many more may be.
//!
//! Contract: an outbox has at most so many attempts on their way as its limit says, and an origin as a destination's. One that
//! has not answered yet, or not the last time, has [`limits::FIRST_ATTEMPTS`]; each answer doubles that. All such origins
//! together have half of the outbox's room, so that however many are silent, those that answer are not held up. Whoever gets
//! no room is parked and comes when something ends.

use std::collections::{HashMap, VecDeque};

use super::{claim::Claim, limits, poll_turns::PollTurns};
use crate::broken::{Variant, broken};

/// Attempts, or polls, that are on their way, by origin or by destination.
#[derive(Debug, Default)]
pub(super) struct Flying(HashMap<String, u32>);

impl Flying {
    pub(super) fn to(&self, name: &str) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    pub(super) fn total(&self) -> u32 {
        self.0.values().sum()
    }

    pub(super) fn begin(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn end(&mut self, name: &str) {
        if let Some(count) = self.0.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }
}

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    /// Attempts by origin.
    pub(super) sends: Flying,
    /// Attempts by destination.
    pub(super) to_destination: Flying,
    /// Polls by origin.
    pub(super) polls: Flying,
    pub(super) poll_turns: PollTurns,
    /// How many attempts an origin that has answered may have on their way.
    windows: HashMap<String, u32>,
    /// Destinations whose origin had no room, longest waiting first.
    at_origin: HashMap<String, VecDeque<String>>,
    /// Destinations that have not answered, for which there was no room.
    silent: VecDeque<String>,
}

/// Why a destination gets no attempt now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// As many are on their way to itself as may be.
    Destination,
    /// To its origin.
    Origin,
    /// To all origins that have not answered.
    Silent,
}

impl Flights {
    /// How many attempts may begin. `own` is the limit of the destination, `each` of an origin, `all` of the outbox.
    pub(super) fn room(
        &self,
        destination: &str,
        origin: &str,
        own: u32,
        each: u32,
        all: u32,
    ) -> Result<u32, Full> {
        let room = own.saturating_sub(self.to_destination.to(destination));
        if room == 0 {
            return Err(Full::Destination);
        }
        let window = self.windows.get(origin).copied();
        let first = match each {
            // At ticks so many leave at once as the tick has.
            limits::MAX_CONCURRENCY => each,
            _ => limits::FIRST_ATTEMPTS,
        };
        let window = window.unwrap_or(first).min(each);
        let at_origin = window.saturating_sub(self.sends.to(origin));
        if at_origin == 0 {
            return Err(Full::Origin);
        }
        let mut room = room.min(at_origin);
        if !self.windows.contains_key(origin) && !broken(Variant::SilentTakeAll) {
            let silent: u32 = self
                .sends
                .0
                .iter()
                .filter(|(origin, _)| !self.windows.contains_key(*origin))
                .map(|(_, count)| count)
                .sum();
            room = room.min((all / 2).max(1).saturating_sub(silent));
            if room == 0 {
                return Err(Full::Silent);
            }
        }
        Ok(room)
    }

    /// Has a destination looked at when there may be room for it.
    pub(super) fn park(&mut self, destination: &str, origin: &str, full: Full) {
        let waiting = match full {
            Full::Destination => return,
            Full::Origin => self.at_origin.entry(origin.to_owned()).or_default(),
            Full::Silent => &mut self.silent,
        };
        if !waiting.iter().any(|parked| parked == destination) {
            waiting.push_back(destination.to_owned());
        }
    }

    pub(super) fn begin(&mut self, claim: &Claim) {
        self.sends.begin(claim.origin());
        self.to_destination.begin(&claim.destination);
    }

    /// Those that were to begin do not.
    pub(super) fn retract(&mut self, sends: &[Claim], polls: &[Claim]) {
        for claim in sends {
            self.sends.end(claim.origin());
            self.to_destination.end(&claim.destination);
        }
        for claim in polls {
            self.polls.end(claim.origin());
        }
    }

    /// One has ended. Returns the destinations that were parked and for which there may be room now.
    pub(super) fn end(&mut self, claim: &Claim) -> Vec<String> {
        let origin = claim.origin();
        if claim.operation.is_some() {
            self.polls.end(origin);
            if self.polls.to(origin) == 0 {
                self.poll_turns.forget(origin);
            }
            return Vec::new();
        }
        self.sends.end(origin);
        self.to_destination.end(&claim.destination);
        self.next_parked(origin)
    }

    /// There is room at an origin that nobody uses. Returns destinations that were parked and may use it.
    pub(super) fn next_parked(&mut self, origin: &str) -> Vec<String> {
        // More than one: the origin may have more room than before.
        let waiting = self.at_origin.get_mut(origin);
        let mut freed: Vec<String> = waiting.map_or_else(Vec::new, |waiting| {
            waiting.drain(..waiting.len().min(2)).collect()
        });
        if self.at_origin.get(origin).is_some_and(VecDeque::is_empty) {
            self.at_origin.remove(origin);
        }
        freed.extend(self.silent.pop_front());
        freed
    }

    /// An origin has answered, or an answer of it was lost.
    pub(super) fn heard(&mut self, origin: &str, answered: bool) {
        if !answered {
            self.windows.remove(origin);
            return;
        }
        if let Some(window) = self.windows.get_mut(origin) {
            *window = window.saturating_mul(2).min(limits::MAX_CONCURRENCY);
            return;
        }
        if self.windows.len() >= limits::MAX_KNOWN_ORIGINS {
            self.windows.clear();
        }
        self.windows
            .insert(origin.to_owned(), 2 * limits::FIRST_ATTEMPTS);
    }
}
